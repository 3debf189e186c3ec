# The workloads of bench/micro, built into bench/ of the build folder by the target bench_programs, which is part of all
# with HK_BENCH. The programs do not link hakmem: the allocator is preloaded. <name>_floor and <name>_bump have none
# (bench/README.md).

set(bench_dir "${PROJECT_SOURCE_DIR}/bench/micro")
# The workloads that also run on a free list without checks, and on a bump pointer. They show what the machine allows.
set(bench_with_lists
    batch
    big_blocks
    calloc_fresh
    churn_threads
    cold_frees
    exchange
    handoff
    larson
    mid_mt
    pair
    partial_arrays
    phases
    random_mixed
    realloc_grow
    trace
)
set(bench_with_bump batch false_sharing pair)

find_package(Threads REQUIRED)
set(bench_all ALL)
if(NOT HK_BENCH)
  set(bench_all "")
endif()
add_custom_target(bench_programs ${bench_all})

add_library(bench_support OBJECT EXCLUDE_FROM_ALL "${bench_dir}/bench.c" "${bench_dir}/bench_options.c")

function(hk_bench_settings target)
  target_link_libraries(${target} PRIVATE hk_flags Threads::Threads)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE=1)
  # A compiler that knows malloc and free may remove a pair of calls.
  target_compile_options(
    ${target} PRIVATE -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free
  )
  set_target_properties(
    ${target}
    PROPERTIES C_STANDARD 17
               C_STANDARD_REQUIRED ON
               C_EXTENSIONS OFF
  )
endfunction()
hk_bench_settings(bench_support)

# hk_add_bench(<source's name> <program's name> <BENCH_FLOOR>)
function(hk_add_bench source name floor)
  add_executable(bench_${name} EXCLUDE_FROM_ALL "${bench_dir}/${source}.c" $<TARGET_OBJECTS:bench_support>)
  hk_bench_settings(bench_${name})
  target_compile_definitions(bench_${name} PRIVATE BENCH_FLOOR=${floor})
  set_target_properties(
    bench_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench"
  )
  add_dependencies(bench_programs bench_${name})
endfunction()

file(GLOB bench_sources CONFIGURE_DEPENDS "${bench_dir}/*.c")
list(REMOVE_ITEM bench_sources "${bench_dir}/bench.c" "${bench_dir}/bench_options.c")
foreach(source IN LISTS bench_sources)
  get_filename_component(name "${source}" NAME_WE)
  hk_add_bench(${name} ${name} 0)
  if(name IN_LIST bench_with_lists)
    hk_add_bench(${name} ${name}_floor 1)
  endif()
  if(name IN_LIST bench_with_bump)
    hk_add_bench(${name} ${name}_bump 2)
  endif()
endforeach()
