# Sets `version` and the list `version_numbers` from include/hakmem/hakmem.h, which is the one place that says the
# version. As a script (cmake -P) prints it.
get_filename_component(hakmem_root "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
file(STRINGS "${hakmem_root}/include/hakmem/hakmem.h" version_lines
     REGEX "^#define HAKMEM_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$"
)
string(REGEX REPLACE "[^;]* ([0-9]+)" "\\1" version_numbers "${version_lines}")
string(REPLACE ";" "." version "${version_numbers}")
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${version}")
endif()
