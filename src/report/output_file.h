/* report/output_file.h - L9. A file that an option names and the library writes: the meaning of the option's value ("-"
 * before the path, %p in it), the process that owns the file, and the warning when it cannot be made. */
#ifndef HK_REPORT_OUTPUT_FILE_H
#define HK_REPORT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/renewed_file.h"

HK_C_BEGIN

/* hk_output_file_check sets `owner` and `is_hopeless` at the start, while the process has one thread. */
typedef struct {
  const char *variable;
  const char *const *value; /* the option's value */
  uint64_t owner;           /* mark of the process that has checked the file; 0: none yet */
  bool is_hopeless;         /* the file cannot be made */
} hk_output_file_t;

/* Returns whether "-" stands before the path: failures then print no warning. */
bool hk_output_file_is_quiet(const hk_output_file_t *file);

/* Returns the path without the "-"; empty when no file is named. */
const char *hk_output_file_pattern(const hk_output_file_t *file);

/* Returns whether a file is named and the check has not failed. */
bool hk_output_file_is_wanted(const hk_output_file_t *file);

/* Returns whether the file belongs to this process. A path without %p belongs to the first process only. */
bool hk_output_file_is_own(const hk_output_file_t *file);

/* In the two functions below, `is_ours` tells which existing files may be replaced. NULL: none, the file must be
 * new. */

/* At the start, once: checks that the file can be made. If it cannot, prints a warning, and the file is no longer
 * wanted. */
void hk_output_file_check(hk_output_file_t *file, hk_renewed_file_is_ours_t *is_ours);

/* Writes all of `bytes`. Returns 0 or the error number. */
int hk_output_file_write(const hk_output_file_t *file, hk_renewed_file_is_ours_t *is_ours, const void *bytes,
                         size_t length);

/* Prints the warning that the file cannot be written, unless the error is 0 or the option is quiet. */
void hk_output_file_complain(const hk_output_file_t *file, int error);

HK_C_END

#endif /* HK_REPORT_OUTPUT_FILE_H */
