# libhakmem-policy.so: the learning of src/policy for `hakmem learn`, with an artificial clock (cli/replay). It has no
# allocator, and libhakmem.so exports none of it. Part of all; not installed.

# An archive, so that the linker takes only the objects that the replay calls.
add_library(hakmem_shared_parts STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hakmem_core_shared>)
set_target_properties(hakmem_shared_parts PROPERTIES LINKER_LANGUAGE C)

add_library(hakmem_policy SHARED "${PROJECT_SOURCE_DIR}/cli/replay/replay.c")
hk_see_internals(hakmem_policy SHARED)
target_link_libraries(hakmem_policy PRIVATE hk_library_flags hakmem_shared_parts)
set_target_properties(
  hakmem_policy
  PROPERTIES OUTPUT_NAME hakmem-policy
             C_STANDARD 17
             C_STANDARD_REQUIRED ON
             C_EXTENSIONS OFF
             LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
)
