/* report/learn_file.c - L9. See learn_file.h.
 *
 * A file that holds something other than a record for this process stays as it is: the path may be mistyped, or the
 * record may come from a run at another price. A damaged or empty record is replaced.
 */
#include "report/learn_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "os/new_file.h"
#include "os/process.h"
#include "os/whole_file.h"
#include "policy/learn_record.h"
#include "policy/option.h"
#include "policy/output_path.h"
#include "space/dirty.h"

/* Set at the start, while the process has one thread. */
static struct {
  uint64_t saver; /* mark of the process that saves; 0: none */
  unsigned char loaded[HK_LEARN_RECORD_BYTES];
} learn_file;

static void complain(const char *complaint, const char *reason) {
  hk_option_warn("HAKMEM_LEARN_FILE", hk_option.learn_file, complaint, reason);
}

static void export_learned(unsigned char *bytes) {
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  hk_learn_export(&learned, bytes);
}

static bool is_worth_nothing(hk_learn_record_verdict_t verdict, size_t length) {
  return verdict == hk_learn_record_damaged || length == 0;
}

/* Imports the record. Returns whether the file may be replaced. */
static bool use(const unsigned char *bytes, size_t length) {
  hk_learn_record_verdict_t verdict = hk_dirty_import_learned(bytes, length);
  if (verdict == hk_learn_record_good) return true;
  bool is_replaced = is_worth_nothing(verdict, length);
  complain(hk_learn_record_text(verdict), is_replaced ? "it is not used, and will be replaced" : "it is left alone");
  return is_replaced;
}

/* Called when there was no file. Another process may have made it since. */
static bool can_be_made(void) {
  int error = hk_new_file_obstacle(hk_option.learn_file);
  if (error == 0 || error == EEXIST) return true;
  complain("cannot be written", hk_output_path_reason(error));
  return false;
}

/* Returns whether the file is to be saved at the end. */
static HK_COLD bool load(void) {
  unsigned char bytes[HK_LEARN_RECORD_BYTES + 1]; /* a longer file is no record */
  size_t length = 0;
  int error = hk_whole_file_read(hk_option.learn_file, bytes, sizeof bytes, &length);
  if (error == 0) return use(bytes, length);
  if (error == ENOENT) return can_be_made();
  complain("cannot be read", hk_output_path_reason(error));
  return false;
}

void hk_learn_file_load(void) {
  if (HK_LIKELY(*hk_option.learn_file == '\0') || !load()) return;
  export_learned(learn_file.loaded);
  learn_file.saver = hk_process_mark();
}

void hk_learn_file_save(void) {
  if (learn_file.saver == 0 || learn_file.saver != hk_process_mark()) return;
  unsigned char bytes[HK_LEARN_RECORD_BYTES];
  export_learned(bytes);
  if (memcmp(bytes, learn_file.loaded, sizeof bytes) == 0) return;
  int error = hk_whole_file_replace(hk_option.learn_file, bytes, sizeof bytes);
  if (error != 0) complain("cannot be written", hk_output_path_reason(error));
}
