/* policy/output_path.h - L2. Paths of the files that options name: expands the process id in them, and explains why the
 * system refuses one. */
#ifndef HK_POLICY_OUTPUT_PATH_H
#define HK_POLICY_OUTPUT_PATH_H

#include <stdbool.h>

#include "base/compiler.h"
#include "policy/option_value.h"

HK_C_BEGIN

/* Each %p can grow by the digits of a process id. */
#define HK_OUTPUT_PATH_BYTES (2 * HK_OPTION_TEXT_BYTES)

/* Writes this process's path to `path`, which has HK_OUTPUT_PATH_BYTES: %p becomes the process id, which differs in a
 * child of fork, and %% a percent sign. */
void hk_output_path_expand(char *path, const char *pattern);

/* Makes the new file that `pattern` names by `make`, which returns 0 or an error number. Where the file exists, and %p
 * stands in its name, another process with the same number wrote it: one of another pid namespace, or an earlier one.
 * The name then gets "-" and the time in ms since 1970 behind the last process id, or the first number above that whose
 * name is not taken. Returns the last error number, and the last path in `path`, which has HK_OUTPUT_PATH_BYTES. */
int hk_output_path_make(char *path, const char *pattern, int (*make)(const char *path, void *context), void *context);

/* Returns whether the path of a child of fork differs. */
bool hk_output_path_has_process_id(const char *pattern);

/* Returns the reason that an error number means, for a message. */
const char *hk_output_path_reason(int error);

HK_C_END

#endif /* HK_POLICY_OUTPUT_PATH_H */
