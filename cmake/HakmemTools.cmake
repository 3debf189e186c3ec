# libhakmem-policy.so: the learning of src/policy for `hakmem learn`, with a made-up clock (cli/replay). No allocator, and
# none of it is exported by libhakmem.so. Part of all; not installed.

set(policy_modules price decay level learn_log learn learn_record)
list(TRANSFORM policy_modules REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/policy/\\1.c" OUTPUT_VARIABLE policy_sources)

add_library(
  hakmem_policy SHARED "${PROJECT_SOURCE_DIR}/cli/replay/replay.c" "${PROJECT_SOURCE_DIR}/src/base/bytes.c"
                       "${PROJECT_SOURCE_DIR}/src/base/format.c"
                       ${policy_sources}
)
hk_see_internals(hakmem_policy 1)
target_link_libraries(hakmem_policy PRIVATE hk_library_flags)
set_target_properties(
  hakmem_policy
  PROPERTIES OUTPUT_NAME hakmem-policy
             C_STANDARD 17
             C_STANDARD_REQUIRED ON
             C_EXTENSIONS OFF
             LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
)
