# Tests, labelled by tier (tests/README.md). Every folder may be empty. The build finds new files by itself.
#
#   tests/unit/*_test.cc                 GoogleTest on the core's parts over tests/support/fake_os.c
#   tests/{api,model,stress}/*_test.cc   GoogleTest on the whole core over the real system, by hakmem_ names
#   tests/fuzz/*_fuzzer.c, *.cc          readers of foreign input over tests/support/fake_os.c (HakmemFuzz.cmake)
#   tests/{misuse,preload}/*.c, *.cc     plain programs that do not link hakmem; pytest runs them with it preloaded
#
# A program holds the tests of many source files. One ctest, and so one process, runs the tests of one source file.

set(tests_dir "${PROJECT_SOURCE_DIR}/tests")
# These test the contract of os/ on the real system.
set(unit_tests_on_real_os
    bare_thread_test
    os_sleep_test
    os_linux_test
    os_linux_refusal_test
    sandbox_identity_test
    os_linux_text_test
    own_stack_test
    lock_test
    lock_fork_test
)
# These run the library's start-up code before main, as a program does that links the whole core.
set(unit_tests_with_start
    sample_countdown_test
    sample_mark_test
    guard_chance_test
    describe_test
    local_socket_test
    profile_test
    profile_estimate_test
    purge_course_test
    purge_thread_test
    refused_calls_test
    report_test
    sandbox_test
    serve_command_test
    serve_test
    share_heaps_test
    steal_under_way_test
)
set(unit_tests_with_start_on_real_os crash_report_test fork_window_test)
# Each of these is a program of its own: it defines names of the C library, or needs libraries that others do not.
set(tests_alone os_linux_range_test reentry_test real_libraries_test)
# musl has no second names for its malloc, which this one calls.
set(tests_of_glibc reentry_test)
include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h HK_GLIBC)
# Many times the duration of a test on a busy machine. The timeouts end tests that hang.
set(HK_UNIT_TIMEOUT_SECONDS 600)
set(HK_LONG_TIMEOUT_SECONDS 1800)

if(CMAKE_CROSSCOMPILING)
  # Distributions ship GoogleTest built for their own architecture only, and its sources.
  if(EXISTS /usr/src/googletest/CMakeLists.txt)
    set(INSTALL_GTEST OFF)
    set(BUILD_GMOCK OFF)
    add_subdirectory(/usr/src/googletest "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL)
    target_compile_options(gtest PRIVATE -O0 -g0)
  else()
    message(FATAL_ERROR "no sources of GoogleTest in /usr/src/googletest (the package libgtest-dev has them)")
  endif()
elseif(HK_TESTS STREQUAL "AUTO")
  find_package(GTest)
  if(NOT GTest_FOUND)
    message(STATUS "GoogleTest is not installed: no tests here (tools/bootstrap.sh installs what is missing)")
    return()
  endif()
else()
  find_package(GTest REQUIRED)
endif()
find_package(Threads REQUIRED)

set(test_environment
    "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0"
    "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1"
)
set(test_launcher "")
# The variant that the tests are of (src/policy/safety.h). The unit tests know the blocks of the default one.
set(HK_TEST_SAFETY 1 CACHE STRING "The variant that the API, model and stress tests run: 1 or 2")
set(tested_core hakmem_core)
if(HK_TEST_SAFETY EQUAL 2)
  set(tested_core hakmem_core_secure)
  # Left out are tests of figures that a hardened build has not (docs/hardened.md): blocks that wait count as live and
  # keep their slabs, small blocks have a canary, large ones are no runs; memory of one size serves no other, addresses
  # stay reserved, and each new block above 32 KiB needs mprotect.
  set(left_out Figures.* *Exhaustion.* Limits.AThreadThatRuns* Limits.DataLimit* Errno.FreeKeepsItWhenTheSystem*
      Errno.WhatTheSystemDoesNotTakeBack* Sizes.GoodSizeWastesLittle Regression.ARefillServesManyBlocks
      Trim.DirtyMemoryBeyondTheLimit* MallocInfo.CountsBlocksOfWholeSlabs NamedHeap.UsageCountsMemoryExactly
      NamedHeapDeathTest.LeaksAreReportedAtTheEnd Trim.WhatAFinishedThreadLeft*
  )
  list(JOIN left_out ":" left_out)
  list(APPEND test_environment "GTEST_FILTER=-${left_out}" "HAKMEM_TEST_HARDENED=1")
endif()
if(CMAKE_CROSSCOMPILING_EMULATOR)
  # qemu's user mode cannot fork a program with threads: its own locks stay held in the child.
  set(test_launcher ${CMAKE_CROSSCOMPILING_EMULATOR})
  list(APPEND test_environment "GTEST_FILTER=-*Fork*:*Death*")
endif()
if(HK_SANITIZE STREQUAL "thread")
  # Older ThreadSanitizers cannot place their shadow memory under kernels that randomise addresses by more bits.
  include(CheckCSourceRuns)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=thread)
  check_c_source_runs("int main(void) { return 0; }" HK_TSAN_RUNS)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT HK_TSAN_RUNS)
    set(test_launcher setarch ${CMAKE_SYSTEM_PROCESSOR} --addr-no-randomize)
  endif()
endif()

# An archive of the core. A unit test links only the parts that it refers to, and runs no start-up code that it does not
# call.
add_library(
  hakmem_core_parts STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hakmem_core_common> $<TARGET_OBJECTS:${tested_core}>
)
set_target_properties(hakmem_core_parts PROPERTIES LINKER_LANGUAGE C)

file(GLOB support_sources CONFIGURE_DEPENDS "${tests_dir}/support/*.c" "${tests_dir}/support/*.cc")
file(GLOB fake_os_sources CONFIGURE_DEPENDS "${tests_dir}/support/fake_os*.c")
list(REMOVE_ITEM support_sources ${fake_os_sources} "${tests_dir}/support/main.cc")

# ThreadSanitizer must see the tests' accesses. AddressSanitizer need not, and without it tests compile in half the
# time.
set(test_flags hk_flags hk_sanitize_flags)
set(test_optimisation -O0 -g1 -U_FORTIFY_SOURCE)
if(HK_SANITIZE STREQUAL "address" AND NOT HK_SANITIZE_TESTS)
  set(test_flags hk_flags)
  list(APPEND test_optimisation -DHK_SANITIZED=1)
endif()

function(hk_set_test_standards target)
  set_target_properties(
    ${target}
    PROPERTIES C_STANDARD 17
               C_STANDARD_REQUIRED ON
               CXX_STANDARD 20
               CXX_STANDARD_REQUIRED ON
  )
endfunction()

function(hk_test_settings target)
  hk_see_internals(${target} ${HK_TEST_SAFETY})
  target_include_directories(${target} PRIVATE "${tests_dir}" "${tests_dir}/support")
  target_link_libraries(${target} PRIVATE ${test_flags})
  target_compile_definitions(${target} PRIVATE HK_TEST_INSTRUMENTS=$<BOOL:${HK_INSTRUMENTS}>)
  # GoogleTest's macros expand to an if with an else. The options prefer fast compilation to fast tests.
  target_compile_options(${target} PRIVATE ${test_optimisation} $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-else>)
  hk_set_test_standards(${target})
endfunction()

if(fake_os_sources)
  add_library(hakmem_fake_os OBJECT EXCLUDE_FROM_ALL ${fake_os_sources})
  hk_test_settings(hakmem_fake_os)
endif()
set(test_support "")
if(support_sources)
  add_library(hakmem_test_support STATIC EXCLUDE_FROM_ALL ${support_sources})
  hk_test_settings(hakmem_test_support)
  target_link_libraries(hakmem_test_support PRIVATE GTest::gtest)
  set(test_support hakmem_test_support)
endif()

# Precompiles the headers that most tests include. Every program has GoogleTest's main with `--source`.
add_library(hakmem_test_main OBJECT EXCLUDE_FROM_ALL "${tests_dir}/support/main.cc")
hk_test_settings(hakmem_test_main)
target_link_libraries(hakmem_test_main PRIVATE GTest::gtest)
target_precompile_headers(hakmem_test_main PRIVATE "${tests_dir}/support/precompiled.h")

set(join_tests "${PROJECT_SOURCE_DIR}/cmake/join_tests.cmake")

# hk_join_sources(<program> <sources> <result>): joins HK_TESTS_TOGETHER sources each into one file (join_tests.cmake),
# because GoogleTest's headers and templates take most of the compile time. Only sources that include the same drivers
# are joined: two drivers may have the same names.
function(hk_join_sources program sources result)
  list(LENGTH sources count)
  if(HK_TESTS_TOGETHER LESS 2 OR count LESS 2)
    set(${result} "${sources}" PARENT_SCOPE)
    return()
  endif()
  set(groups "")
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" drivers REGEX "^#include \".*_driver\\.h\"")
    string(REGEX REPLACE "#include|\"|[a-z]+/|_driver|\\.h|[ ;]" "" group "${drivers}")
    list(APPEND groups "of_${group}")
    list(APPEND of_${group} "${source}")
  endforeach()
  list(REMOVE_DUPLICATES groups)
  set(joined "")
  foreach(group IN LISTS groups)
    list(LENGTH ${group} count)
    math(EXPR last "${count} - 1")
    foreach(begin RANGE 0 ${last} ${HK_TESTS_TOGETHER})
      list(SUBLIST ${group} ${begin} ${HK_TESTS_TOGETHER} some)
      set(output "${PROJECT_BINARY_DIR}/joined/${program}_${group}_${begin}.cc")
      add_custom_command(
        OUTPUT "${output}"
        COMMAND "${CMAKE_COMMAND}" -D "OUTPUT=${output}" -D "SOURCES=${some}" -P "${join_tests}"
        DEPENDS ${some} "${join_tests}"
        VERBATIM
      )
      list(APPEND joined "${output}")
    endforeach()
  endforeach()
  set(${result} "${joined}" PARENT_SCOPE)
endfunction()

# The seconds that the longest tests take. ctest starts them first, so that none runs alone at the end. It measures the
# others itself, from the first run on.
set(HK_LONG_TESTS
    model_check.purge_drain=80
    model_check.purge_drain_fast=60
    model_check.space_every_order=60
    unit.fork_window_test=50
    model_check.steal=30
    model_check.adoption=20
    model_check.adoption_fast=20
    unit.refused_calls_test=20
    model.model_test=20
    model_secure.model_test=20
    model_check.remote=15
    stress.asymmetry_test=15
    api.exhaustion_test=10
    api.trim_test=10
    api.regression_test=10
    api.named_heap_test=5
    api.figures_test=5
    unit.superslab_model_test=5
    unit.profile_test=5
    stress.thread_lifetime_test=5
)

# Sets a variable to the test's cost, 0 where it is not in the list: ctest's own is in force then.
function(hk_cost_of test result)
  set(cost 0)
  foreach(entry IN LISTS HK_LONG_TESTS)
    if(entry MATCHES "^${test}=(.*)")
      set(cost ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${result} ${cost} PARENT_SCOPE)
endfunction()

# hk_add_tests(<program> <label> <timeout seconds> <sources> <what to link>...)
function(hk_add_tests program label timeout sources)
  if(NOT sources)
    return()
  endif()
  hk_join_sources(${program} "${sources}" joined)
  add_executable(${program} ${joined} $<TARGET_OBJECTS:hakmem_test_main>)
  hk_test_settings(${program})
  target_include_directories(${program} PRIVATE "${tests_dir}/${label}")
  target_precompile_headers(${program} REUSE_FROM hakmem_test_main)
  target_link_libraries(${program} PRIVATE ${test_support} ${ARGN} GTest::gtest Threads::Threads)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  if(NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  add_dependencies(tests_${label} ${program})
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_test(NAME ${label}.${name} COMMAND ${test_launcher} $<TARGET_FILE:${program}> --source=${name})
    hk_cost_of(${label}.${name} cost)
    set_tests_properties(
      ${label}.${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout} ENVIRONMENT "${test_environment}" COST ${cost}
    )
  endforeach()
endfunction()

# Keeps the sources that start threads, which are those that ThreadSanitizer checks.
function(hk_keep_threaded list_name)
  foreach(source IN LISTS ${list_name})
    file(STRINGS "${source}" threads REGEX "std::thread|std::async|pthread_create|stress_threads\\.h|lock_driver\\.h")
    if(NOT threads)
      list(REMOVE_ITEM ${list_name} "${source}")
    endif()
  endforeach()
  set(${list_name} "${${list_name}}" PARENT_SCOPE)
endfunction()

# Keeps the sources that need none of the instruments.
function(hk_keep_allocator list_name)
  set(instruments "\"(unwind|pprof|inspect|report|serve)/|profile_driver\\.h|figures_driver\\.h")
  set(public "hakmem_(stats|profile|describe|malloc_info|malloc_stats|tag_counts)|\\.counts\\(")
  string(APPEND public "|hk_(profile|crash_report|serve)_")
  foreach(source IN LISTS ${list_name})
    file(STRINGS "${source}" uses REGEX "${instruments}|${public}")
    if(uses)
      list(REMOVE_ITEM ${list_name} "${source}")
    endif()
  endforeach()
  set(${list_name} "${${list_name}}" PARENT_SCOPE)
endfunction()

# Sets <tier>_sources, the tests of a tier, and <tier>_alone, those that are programs of their own.
function(hk_glob_tests tier)
  file(GLOB sources CONFIGURE_DEPENDS "${tests_dir}/${tier}/*_test.cc")
  if(HK_TESTS_ONLY_THREADED)
    hk_keep_threaded(sources)
  endif()
  if(NOT HK_INSTRUMENTS)
    hk_keep_allocator(sources)
  endif()
  set(left_out "")
  if(NOT HK_GLIBC)
    hk_move_sources(sources left_out tests_of_glibc)
  endif()
  set(alone "")
  hk_move_sources(sources alone tests_alone)
  set(${tier}_sources "${sources}" PARENT_SCOPE)
  set(${tier}_alone "${alone}" PARENT_SCOPE)
endfunction()

# hk_add_tests_alone(<tier> <timeout seconds> <what to link>...)
function(hk_add_tests_alone tier timeout)
  foreach(source IN LISTS ${tier}_alone)
    get_filename_component(name "${source}" NAME_WE)
    hk_add_tests(${name} ${tier} ${timeout} "${source}" ${ARGN})
  endforeach()
endfunction()

# Moves the sources that the list `names` has from the list `from` to the list `to`.
function(hk_move_sources from to names)
  foreach(source IN LISTS ${from})
    get_filename_component(name "${source}" NAME_WE)
    if(name IN_LIST ${names})
      list(REMOVE_ITEM ${from} "${source}")
      list(APPEND ${to} "${source}")
    endif()
  endforeach()
  set(${from} "${${from}}" PARENT_SCOPE)
  set(${to} "${${to}}" PARENT_SCOPE)
endfunction()

set(whole_core $<TARGET_OBJECTS:hakmem_core_common> $<TARGET_OBJECTS:${tested_core}>)
set(fake_os $<TARGET_OBJECTS:hakmem_fake_os>)

if(HK_TEST_SAFETY EQUAL 2)
  set(unit_sources "")
  set(unit_alone "")
else()
  hk_glob_tests(unit)
endif()
foreach(group IN ITEMS unit_tests_on_real_os unit_tests_with_start unit_tests_with_start_on_real_os)
  set(${group}_sources "")
  hk_move_sources(unit_sources ${group}_sources ${group})
endforeach()
hk_add_tests(unit unit ${HK_UNIT_TIMEOUT_SECONDS} "${unit_sources}" ${fake_os} hakmem_core_parts)
hk_add_tests(
  unit_start unit ${HK_UNIT_TIMEOUT_SECONDS} "${unit_tests_with_start_sources}" ${fake_os} hakmem_core_parts
)
hk_add_tests(unit_real_os unit ${HK_UNIT_TIMEOUT_SECONDS} "${unit_tests_on_real_os_sources}" hakmem_core_parts)
hk_add_tests(
  unit_start_real_os unit ${HK_UNIT_TIMEOUT_SECONDS} "${unit_tests_with_start_on_real_os_sources}" hakmem_core_parts
)
hk_add_tests_alone(unit ${HK_UNIT_TIMEOUT_SECONDS} hakmem_core_parts)

foreach(tier IN ITEMS api model stress)
  hk_glob_tests(${tier})
  hk_add_tests(${tier} ${tier} ${HK_LONG_TIMEOUT_SECONDS} "${${tier}_sources}" ${whole_core})
  hk_add_tests_alone(${tier} ${HK_LONG_TIMEOUT_SECONDS} ${whole_core})
endforeach()

# The model and stress tests once more on the hardened variant. Their objects name hakmem.h alone, and are linked again.
# many_threads_test bounds the records of a heap, to which this variant adds a quarantine (docs/hardened.md, Limits).
# The preset `secure` runs it.
if(HK_PYTEST AND TARGET hakmem_core_secure AND HK_TEST_SAFETY EQUAL 1)
  foreach(tier IN ITEMS model stress)
    add_executable(${tier}_secure $<TARGET_OBJECTS:${tier}> $<TARGET_OBJECTS:hakmem_test_main>)
    target_link_libraries(
      ${tier}_secure PRIVATE ${test_support} $<TARGET_OBJECTS:hakmem_core_common>
                             $<TARGET_OBJECTS:hakmem_core_secure> GTest::gtest Threads::Threads
    )
    set_target_properties(${tier}_secure PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    add_dependencies(tests_${tier} ${tier}_secure)
    foreach(source IN LISTS ${tier}_sources)
      get_filename_component(name "${source}" NAME_WE)
      if(name STREQUAL "many_threads_test")
        continue()
      endif()
      add_test(NAME ${tier}_secure.${name} COMMAND $<TARGET_FILE:${tier}_secure> --source=${name})
      hk_cost_of(${tier}_secure.${name} cost)
      set_tests_properties(
        ${tier}_secure.${name}
        PROPERTIES LABELS "${tier}"
                   TIMEOUT ${HK_LONG_TIMEOUT_SECONDS}
                   COST ${cost}
                   ENVIRONMENT "${test_environment};HAKMEM_TEST_SCALE=0.1"
      )
    endforeach()
  endforeach()
endif()

# hk_add_guarded_test(<tier> <source's name> <rate>): the same tests, shortened, while one allocation in `rate` is
# guarded.
function(hk_add_guarded_test tier source rate)
  if(NOT "${tests_dir}/${tier}/${source}.cc" IN_LIST ${tier}_sources)
    return() # this build leaves it out
  endif()
  set(name ${tier}.${source}_guarded_${rate})
  add_test(NAME ${name} COMMAND ${test_launcher} $<TARGET_FILE:${tier}> --source=${source})
  set_tests_properties(
    ${name} PROPERTIES LABELS ${tier} TIMEOUT ${HK_LONG_TIMEOUT_SECONDS} ENVIRONMENT
                       "${test_environment};HAKMEM_GUARD=${rate};HAKMEM_TEST_SCALE=0.02"
  )
endfunction()
foreach(rate IN ITEMS 1 7 100)
  hk_add_guarded_test(model model_test ${rate})
endforeach()
foreach(source IN ITEMS exchange_test fork_storm_test many_threads_test profile_switch_test thread_lifetime_test)
  hk_add_guarded_test(stress ${source} 1)
  hk_add_guarded_test(stress ${source} 7)
endforeach()

# Real libraries on hakmem, as far as they are installed. hk_use_library(<package> <definition>) follows find_package.
function(hk_use_library package definition)
  target_compile_definitions(real_libraries_test PRIVATE ${definition}=$<BOOL:${${package}_FOUND}>)
  string(TOUPPER ${package} prefix)
  if(${package}_FOUND)
    target_include_directories(real_libraries_test SYSTEM PRIVATE ${${package}_INCLUDE_DIRS} ${${prefix}_INCLUDE_DIR})
    target_link_libraries(real_libraries_test PRIVATE ${${package}_LIBRARIES} ${${prefix}_LIBRARIES})
  else()
    message(STATUS "real_libraries_test: without ${package}, which is not installed")
  endif()
endfunction()
foreach(library IN ITEMS SQLite3 LibXml2 Lua ZLIB)
  if(NOT CMAKE_CROSSCOMPILING) # only the build machine's libraries are installed
    find_package(${library} QUIET)
  endif()
endforeach()
hk_use_library(SQLite3 HK_HAVE_SQLITE)
hk_use_library(LibXml2 HK_HAVE_LIBXML2)
hk_use_library(Lua HK_HAVE_LUA)
hk_use_library(ZLIB HK_HAVE_ZLIB)

include(HakmemFuzz)

if(HK_SANITIZE)
  return()
endif()

if(HK_MODEL_CHECK)
  include(HakmemModelCheck)
endif()

if(HK_PYTEST)
  set(HK_PYTHON "${PROJECT_SOURCE_DIR}/build/venv/bin/python" CACHE FILEPATH "A Python that has pytest")
  # These wait for other programs most of the time.
  execute_process(COMMAND "${HK_PYTHON}" -c "import xdist" RESULT_VARIABLE xdist_is_missing OUTPUT_QUIET ERROR_QUIET)
  set(pytest_workers -n 4)
  if(xdist_is_missing)
    set(pytest_workers "")
  endif()
  foreach(suite IN ITEMS misuse preload tools bench cli)
    file(GLOB suite_files CONFIGURE_DEPENDS "${tests_dir}/${suite}/test_*.py")
    if(suite_files)
      add_test(
        NAME ${suite}
        COMMAND "${HK_PYTHON}" -m pytest -v ${pytest_workers} --durations=10 -p no:cacheprovider "${tests_dir}/${suite}"
        WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
      )
      set_tests_properties(
        ${suite}
        PROPERTIES LABELS ${suite}
                   TIMEOUT ${HK_LONG_TIMEOUT_SECONDS}
                   PROCESSORS 2
                   ENVIRONMENT "HAKMEM_TEST_BUILD_DIR=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1"
      )
    endif()
  endforeach()

  # The battery of misuse, the attacks, and what may go wrong in programs, on the hardened variant. It needs more
  # addresses than a test with a low limit on them allows (docs/hardened.md).
  set(secure_tests "")
  foreach(name IN ITEMS misuse/test_misuse misuse/test_attacks preload/test_fork preload/test_signals
                        preload/test_thread_ends preload/test_threads_at_exit preload/test_guards preload/test_gdb
                        preload/test_awake_memory
  )
    list(APPEND secure_tests "${tests_dir}/${name}.py")
  endforeach()
  foreach(name IN ITEMS test_memory_cgroup test_no_refusal_ends_a_program
                        test_a_size_is_told_after_a_shrinking_without_memory
  )
    list(APPEND secure_tests "${tests_dir}/preload/test_limits.py::${name}")
  endforeach()
  add_test(
    NAME secure
    COMMAND "${HK_PYTHON}" -m pytest -v ${pytest_workers} --durations=10 -p no:cacheprovider ${secure_tests}
            -k "not few_addresses and not real_programs"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
  )
  set_tests_properties(
    secure
    PROPERTIES LABELS secure
               TIMEOUT ${HK_LONG_TIMEOUT_SECONDS}
               PROCESSORS 2
               ENVIRONMENT "HAKMEM_TEST_BUILD_DIR=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;\
HAKMEM_TEST_LIBRARY=${PROJECT_BINARY_DIR}/libhakmem-secure.so"
  )
endif()
