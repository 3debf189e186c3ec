# The programs of tests/misuse and tests/preload, C and C++ that does not link hakmem: target test_programs, which is
# part of all with HK_PYTEST. They need neither GoogleTest nor pytest.

set(tests_dir "${PROJECT_SOURCE_DIR}/tests")
find_package(Threads REQUIRED)

# Programs that run with the library preloaded. The compiler must leave every malloc and free where it is.
# Programs that use what glibc alone has: pvalloc, malloc_trim, mallinfo, second names of malloc, obstacks,
# RTLD_DEEPBIND, dlmopen, contexts.
set(programs_of_glibc
    corner_cases
    coroutine_stacks
    damaged_remote
    deepbind
    double_free_after_trim
    ends_beside_trim
    environment
    free_unmapped
    guard_places
    kill_filter
    lazy_purge
    libc_blocks
    libc_names
    malloc_stats
    sleep_in_handlers
    stack_use
    syscall_faults
    wraps_malloc
)
set(programs_all "")
if(HK_PYTEST)
  set(programs_all ALL)
endif()
add_custom_target(test_programs ${programs_all})
foreach(tier IN ITEMS misuse preload)
  file(GLOB program_sources CONFIGURE_DEPENDS "${tests_dir}/${tier}/*.c" "${tests_dir}/${tier}/*.cc")
  if(NOT HK_GLIBC)
    list(JOIN programs_of_glibc "|" left_out)
    list(FILTER program_sources EXCLUDE REGEX "/(${left_out})\\.c$")
    list(FILTER program_sources EXCLUDE REGEX "\\.cc$") # zig links C++ programs statically
  endif()
  foreach(source IN LISTS program_sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${tier}_${name} EXCLUDE_FROM_ALL "${source}")
    set_target_properties(
      ${tier}_${name}
      PROPERTIES OUTPUT_NAME ${name}
                 C_STANDARD 17
                 CXX_STANDARD 17
                 RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/${tier}"
    )
    # Sized delete is C++14; clang before 19 leaves it out by default.
    target_compile_options(
      ${tier}_${name} PRIVATE -O1 -g -fno-builtin -w $<$<COMPILE_LANGUAGE:CXX>:-fsized-deallocation>
    )
    target_include_directories(${tier}_${name} PRIVATE "${PROJECT_SOURCE_DIR}/include")
    # The wrapper musl-gcc leaves the index of the frame tables out, which a walk of a stack needs.
    target_link_options(${tier}_${name} PRIVATE -Wl,--eh-frame-hdr)
    target_link_libraries(${tier}_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} rt)
    add_dependencies(test_programs ${tier}_${name})
  endforeach()
endforeach()
