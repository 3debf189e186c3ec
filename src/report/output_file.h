/* report/output_file.h - L9. A file that an option names and that we write: what its value means ("-" before the path, %p in it), which
 * process's it is, and what is said when it cannot be made. */
#ifndef HK_REPORT_OUTPUT_FILE_H
#define HK_REPORT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/renewed_file.h"

HK_C_BEGIN

/* What the check sets is set at the start, before a second thread exists. */
typedef struct {
  const char *variable;
  const char *const *value; /* the option's */
  uint64_t owner;           /* the mark of the process that has checked it; 0: none yet */
  bool is_hopeless;         /* it cannot be made */
} hk_output_file_t;

/* With "-" before its path: whoever set the variable knows that the file may not come about, and nothing is said then. */
bool hk_output_file_is_quiet(const hk_output_file_t *file);

/* The path without that; empty: none is named. */
const char *hk_output_file_pattern(const hk_output_file_t *file);

/* Whether one is named, and can be made for all that is known. */
bool hk_output_file_is_wanted(const hk_output_file_t *file);

/* Whether it is this process's: of one name for all it is the first process's alone, with %p each has its own. */
bool hk_output_file_is_own(const hk_output_file_t *file);

/* In the two below `is_ours` is NULL for a file that is made where none is, and otherwise says what may be replaced. */

/* At the start, once: says it now rather than after hours when the file cannot be made. It is then no longer wanted. */
void hk_output_file_check(hk_output_file_t *file, hk_renewed_file_is_ours_t *is_ours);

/* All of `bytes`. 0, or the error number. */
int hk_output_file_write(const hk_output_file_t *file, hk_renewed_file_is_ours_t *is_ours, const void *bytes,
                         size_t length);

/* Says that it cannot be written, unless the error is 0 or nothing is to be said. */
void hk_output_file_complain(const hk_output_file_t *file, int error);

HK_C_END

#endif /* HK_REPORT_OUTPUT_FILE_H */
