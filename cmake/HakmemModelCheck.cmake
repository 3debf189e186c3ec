# The model checker (tests/model_check). Its programs consist of the core's sources, compiled with the compiler's thread
# instrumentation, and of the checker in the place of ThreadSanitizer's library. Each program is one ctest. Each mutant
# is one too: a program with one place of one source weakened, which the checker must catch.

set(model_dir "${tests_dir}/model_check")
set(model_output "${PROJECT_BINARY_DIR}/tests/model_check")
set(HK_MODEL_TIMEOUT_SECONDS 900)
add_custom_target(model_check_programs ALL)

function(hk_model_settings target safety)
  hk_see_internals(${target} ${safety})
  target_include_directories(${target} PRIVATE "${tests_dir}")
  target_link_libraries(${target} PRIVATE hk_flags)
  target_compile_definitions(${target} PRIVATE HK_SPIN_COUNT=1)
  # Optimised in every build, because the checker tries every order. The checker's longjmp goes from stack to stack,
  # which a fortified longjmp takes for an error.
  target_compile_options(${target} PRIVATE -O2 -g1 -U_FORTIFY_SOURCE $<$<COMPILE_LANGUAGE:C>:-fsanitize=thread>)
  hk_set_test_standards(${target})
  # The lint sees the core's sources as they are shipped.
  set_target_properties(${target} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
endfunction()

# The checker itself is not instrumented.
set(model_checker_sources check_main explorer instrumentation machine order_model undo_log)
list(TRANSFORM model_checker_sources REPLACE "(.+)" "${model_dir}/\\1.cc")
add_library(model_checker OBJECT EXCLUDE_FROM_ALL ${model_checker_sources})
hk_model_settings(model_checker 1)

# The core's lower layers as archives: the linker leaves out what a program defines itself (the machine, the locks, a
# mutant). No scenario calls the API or the instruments.
set(model_core_sources ${variant_sources})
set(model_common_sources ${common_sources})
foreach(list IN ITEMS model_core_sources model_common_sources)
  list(FILTER ${list} INCLUDE REGEX "src/(base|os|policy|space|heap)/")
endforeach()
add_library(model_core_common OBJECT EXCLUDE_FROM_ALL ${model_common_sources})
hk_model_settings(model_core_common ANY)
foreach(safety IN ITEMS 0 1)
  add_library(model_core_${safety} STATIC EXCLUDE_FROM_ALL ${model_core_sources} $<TARGET_OBJECTS:model_core_common>)
  hk_model_settings(model_core_${safety} ${safety})
endforeach()

# Adds the objects of a file of scenarios, for its own program and for its mutants.
function(hk_model_scenarios scenarios safety)
  set(target model_scenarios_${scenarios}_${safety})
  if(NOT TARGET ${target})
    add_library(${target} OBJECT EXCLUDE_FROM_ALL "${model_dir}/${scenarios}_scenarios.c")
    if(NOT scenarios STREQUAL "lock")
      target_sources(${target} PRIVATE "${model_dir}/machine_locks.cc")
    endif()
    hk_model_settings(${target} ${safety})
  endif()
endfunction()

# hk_add_model_program(<name> <scenarios> <safety> <sources before the core's>...)
function(hk_add_model_program name scenarios safety)
  set(target model_check_${name})
  hk_model_scenarios(${scenarios} ${safety})
  add_executable(
    ${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:model_scenarios_${scenarios}_${safety}> $<TARGET_OBJECTS:model_checker>
                               ${ARGN}
  )
  hk_model_settings(${target} ${safety})
  target_link_libraries(${target} PRIVATE model_core_${safety})
  target_link_options(${target} PRIVATE -Wl,--wrap=memset,--wrap=memcpy)
  set_target_properties(
    ${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY "${model_output}"
  )
  add_dependencies(model_check_programs ${target})
endfunction()

# hk_add_model_check(<name> <scenarios> <safety>)
function(hk_add_model_check name scenarios safety)
  hk_add_model_program(${name} ${scenarios} ${safety})
  add_test(NAME model_check.${name} COMMAND model_check_${name})
  hk_cost_of(model_check.${name} cost)
  set_tests_properties(
    model_check.${name} PROPERTIES LABELS model_check TIMEOUT ${HK_MODEL_TIMEOUT_SECONDS} COST ${cost}
  )
endfunction()

# hk_add_model_mutant(<name> <scenario> <source> <its text> <weakened> <what the checker says>)
function(hk_add_model_mutant name scenario source text weakened sentence)
  foreach(candidate IN ITEMS remote adoption attachment steal purge_drain space lock guard)
    file(STRINGS "${model_dir}/${candidate}_scenarios.c" found REGEX "\"${scenario}\"")
    if(found)
      set(scenarios ${candidate})
    endif()
  endforeach()
  set(mutant "${model_output}/mutants/${name}")
  file(CONFIGURE OUTPUT "${mutant}.cmake" CONTENT "set(text [====[@text@]====])\nset(weakened [====[@weakened@]====])\n"
       @ONLY
  )
  add_custom_command(
    OUTPUT "${mutant}.c"
    COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${PROJECT_SOURCE_DIR}/src/${source}" -D "MUTANT=${mutant}.cmake" -D
            "OUTPUT=${mutant}.c" -P "${model_dir}/mutate.cmake"
    DEPENDS "${PROJECT_SOURCE_DIR}/src/${source}" "${mutant}.cmake" "${model_dir}/mutate.cmake"
    VERBATIM
  )
  hk_add_model_program(mutant_${name} ${scenarios} 1 "${mutant}.c")
  target_compile_options(model_check_mutant_${name} PRIVATE -w) # a weakened source may leave names unused
  add_test(NAME model_check.mutant_${name} COMMAND model_check_mutant_${name} --expect "${sentence}" ${scenario})
  set_tests_properties(
    model_check.mutant_${name} PROPERTIES LABELS "model_check;mutant" TIMEOUT ${HK_MODEL_TIMEOUT_SECONDS}
  )
endfunction()

hk_add_model_check(litmus litmus 1)
foreach(scenarios IN ITEMS remote adoption attachment steal purge_drain space lock guard)
  hk_add_model_check(${scenarios} ${scenarios} 1)
endforeach()
# Checks the checker's reduction: it finds the same behaviours as all orders together.
add_test(NAME model_check.litmus_every_order COMMAND model_check_litmus --every-order)
add_test(NAME model_check.space_every_order
         COMMAND model_check_space --every-order run_keep_and_free large_free_and_alloc region_hand_over purge_and_reuse
)
set_tests_properties(
  model_check.litmus_every_order model_check.space_every_order PROPERTIES LABELS model_check TIMEOUT
                                                                          ${HK_MODEL_TIMEOUT_SECONDS}
)
# libhakmem-fast.so links blocks without seals.
hk_add_model_check(remote_fast remote 0)
hk_add_model_check(adoption_fast adoption 0)
hk_add_model_check(purge_drain_fast purge_drain 0)
include("${model_dir}/mutants.cmake")
