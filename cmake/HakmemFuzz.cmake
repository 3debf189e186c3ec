# Fuzz targets (tests/fuzz/*_fuzzer.c, .cc): readers of foreign input.
#
#   fuzz_corpus      all targets in one program with the project's driver (run_corpus.cc); a ctest each, label fuzz
#   fuzz_<name>      with HK_FUZZ, each target as a program of libFuzzer (clang); target `fuzzers` builds them all
#
# Included by HakmemTests.cmake, whose fake system the targets run on.

# The targets put tables with addresses at a fixed address, which ThreadSanitizer's shadow memory or an emulator may
# occupy.
if(HK_SANITIZE STREQUAL "thread" OR CMAKE_CROSSCOMPILING)
  return()
endif()

set(fuzz_dir "${tests_dir}/fuzz")
file(GLOB fuzz_sources CONFIGURE_DEPENDS "${fuzz_dir}/*_fuzzer.c" "${fuzz_dir}/*_fuzzer.cc")
if(NOT HK_INSTRUMENTS)
  hk_keep_allocator(fuzz_sources)
endif()
set(fuzz_support "${fuzz_dir}/kernel_text.c")
# The mutations of each target in one test, at a scale of 1.
set(HK_FUZZ_TEST_MUTATIONS 8000)

# Some targets contain files of the library. So sanitizers check the targets as they check the library, unlike other
# tests.
function(hk_fuzz_settings target)
  hk_see_internals(${target} 1)
  target_include_directories(${target} PRIVATE "${tests_dir}" "${tests_dir}/support" "${fuzz_dir}")
  target_link_libraries(${target} PRIVATE hk_flags hk_sanitize_flags hakmem_core_parts Threads::Threads)
  target_compile_options(${target} PRIVATE -O1 -g1)
  hk_set_test_standards(${target})
  set_target_properties(
    ${target} PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
  )
endfunction()

function(hk_fuzz_name source name)
  get_filename_component(stem "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzzer$" "" stem "${stem}")
  set(${name} ${stem} PARENT_SCOPE)
endfunction()

if(HK_FUZZ)
  # Coverage of all code that the targets link.
  target_compile_options(hk_flags INTERFACE -fsanitize=fuzzer-no-link)
  add_custom_target(fuzzers)
  foreach(source IN LISTS fuzz_sources)
    hk_fuzz_name("${source}" name)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL "${source}" ${fuzz_support} ${fake_os})
    hk_fuzz_settings(fuzz_${name})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers fuzz_${name})
  endforeach()
  return()
endif()

set(fuzz_list "")
foreach(source IN LISTS fuzz_sources)
  hk_fuzz_name("${source}" name)
  string(APPEND fuzz_list "FUZZ_TARGET(${name})\n")
  set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=fuzz_${name})
endforeach()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/fuzz/fuzz_targets.inc" CONTENT "${fuzz_list}")

add_executable(fuzz_corpus "${fuzz_dir}/run_corpus.cc" ${fuzz_sources} ${fuzz_support} ${fake_os})
hk_fuzz_settings(fuzz_corpus)
if(HK_SANITIZE)
  # The driver reads no foreign input, and takes long to compile with a sanitizer.
  set_source_files_properties("${fuzz_dir}/run_corpus.cc" PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
endif()
target_include_directories(fuzz_corpus PRIVATE "${PROJECT_BINARY_DIR}/fuzz")
target_compile_definitions(fuzz_corpus PRIVATE FUZZ_CORPUS_FOLDER="${fuzz_dir}/corpus")
add_custom_target(tests_fuzz DEPENDS fuzz_corpus)
foreach(source IN LISTS fuzz_sources)
  hk_fuzz_name("${source}" name)
  add_test(NAME fuzz.${name} COMMAND fuzz_corpus --target=${name} --mutations=${HK_FUZZ_TEST_MUTATIONS})
  set_tests_properties(
    fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT ${HK_UNIT_TIMEOUT_SECONDS} ENVIRONMENT "${test_environment}"
  )
endforeach()
