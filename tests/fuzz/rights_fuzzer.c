/* os/os_rights: the input is the status files of the first thread and of this one (kernel_text.h). Two equal files
 * have to give the same rights, and two that differ in a capability different ones. */
#include "fuzz.h"
#include "kernel_text.h"
#include "os/syscall.h"

/* This file includes the tested one, so that its system calls end here. */
#define hk_os_rights fuzzed_rights
#define hk_syscall2(number, a, b) kernel_text_call(number, a, b, 0)
#define hk_syscall3(number, a, b, c) kernel_text_call(number, a, b, c)
#define hk_syscall4(number, a, b, c, d) ((void)(d), kernel_text_call(number, a, b, c))
#define hk_syscall6(number, a, b, c, d, e, f) ((void)(d), (void)(e), (void)(f), kernel_text_call(number, a, b, c))
#include "os/os_rights.c"

#define FIRSTS "/proc/self/status"
#define OWN "/proc/thread-self/status"
#define CAPABILITIES "CapEff:\t"

static bool read_both(lines_t *firsts, lines_t *own) {
  bool is_read = read_lines(FIRSTS, firsts) == 0;
  return read_lines(OWN, own) == 0 && is_read;
}

/* Changes one digit of the value at the file's beginning. */
static void check_capability(const uint8_t *text, size_t size) {
  static uint8_t changed[4096];
  size_t place = sizeof CAPABILITIES - 1;
  if (size <= place || size > sizeof changed || memcmp(text, CAPABILITIES, place) != 0 || text[place] == '\n') return;
  if (memchr(text, '@', size) != NULL) return; /* the line would begin another file */
  lines_t one, other;
  memcpy(changed, text, size);
  kernel_text_load(changed, size);
  FUZZ_CHECK(read_lines(FIRSTS, &one) == 0);
  changed[place] ^= 1;
  if (changed[place] == '\n') return;
  FUZZ_CHECK(read_lines(FIRSTS, &other) == 0 && one.digest != other.digest);
  FUZZ_CHECK(compare_lines(&one, &other) != hk_rights_same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kernel_text_load(data, size);
  size_t first_size, own_size;
  const uint8_t *firsts_text = kernel_text_find(FIRSTS, &first_size), *own_text = kernel_text_find(OWN, &own_size);
  hk_rights_t verdict = hk_os_rights(true);
  FUZZ_CHECK(verdict >= hk_rights_same && verdict <= hk_rights_unknown);
  FUZZ_CHECK(kernel_text_open_count() == 0);

  lines_t firsts, own;
  if (read_both(&firsts, &own)) {
    FUZZ_CHECK(compare_lines(&firsts, &firsts) == hk_rights_same);
    if (first_size == own_size && memcmp(firsts_text, own_text, own_size) == 0) FUZZ_CHECK(verdict == hk_rights_same);
    if (verdict == hk_rights_same) FUZZ_CHECK(firsts.digest == own.digest);
  }
  FUZZ_CHECK(kernel_text_open_count() == 0);
  if (firsts_text != NULL) check_capability(firsts_text, first_size);
  return 0;
}
