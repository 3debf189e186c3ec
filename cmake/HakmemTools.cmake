# libhakmem-policy.so: the learning of src/policy for `hakmem learn`, with an artificial clock (cli/replay). It has no
# allocator, and libhakmem.so exports none of it. Part of all; not installed.

# An archive, so that the linker takes only the objects that the replay calls.
add_library(hakmem_common_parts STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hakmem_core_common>)
set_target_properties(hakmem_common_parts PROPERTIES LINKER_LANGUAGE C)

add_library(hakmem_policy SHARED "${PROJECT_SOURCE_DIR}/cli/replay/replay.c")
hk_see_internals(hakmem_policy ANY)
target_link_libraries(hakmem_policy PRIVATE hk_library_flags hakmem_common_parts)
set_target_properties(
  hakmem_policy
  PROPERTIES OUTPUT_NAME hakmem-policy
             C_STANDARD 17
             C_STANDARD_REQUIRED ON
             C_EXTENSIONS OFF
             LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
)

# hakmem-launch: the small program that starts measured programs (cli/launcher). Static, because it has to be smaller
# than every program that it starts; some distributions have no static C library.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LINK_OPTIONS -static)
check_c_source_compiles("int main(void) { return 0; }" HK_HAS_STATIC_LIBC)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
add_executable(hakmem_launcher "${PROJECT_SOURCE_DIR}/cli/launcher/launch.c")
target_link_libraries(hakmem_launcher PRIVATE hk_flags)
if(HK_HAS_STATIC_LIBC)
  target_link_options(hakmem_launcher PRIVATE -static)
endif()
set_target_properties(
  hakmem_launcher PROPERTIES OUTPUT_NAME hakmem-launch RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
)
