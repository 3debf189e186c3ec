/* policy/output_path.h - L2. The paths that options give to files that we make: what stands for the process id in them, and
 * what to say when the system refuses one. */
#ifndef HK_POLICY_OUTPUT_PATH_H
#define HK_POLICY_OUTPUT_PATH_H

#include <stdbool.h>

#include "base/compiler.h"
#include "policy/option_value.h"

HK_C_BEGIN

/* Each %p may become longer by the digits of a process id. */
#define HK_OUTPUT_PATH_BYTES (2 * HK_OPTION_TEXT_BYTES)

/* The path in this process, for which `path` has HK_OUTPUT_PATH_BYTES: %p is the process id, which a child of fork has
 * another of; %% is a percent sign. */
void hk_output_path_expand(char *path, const char *pattern);

/* Whether a child of fork has a path of its own. */
bool hk_output_path_has_process_id(const char *pattern);

/* For a message, what an error number means. */
const char *hk_output_path_reason(int error);

HK_C_END

#endif /* HK_POLICY_OUTPUT_PATH_H */
