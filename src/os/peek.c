/* os/peek.c - L1. See peek.h. */
#include "os/peek.h"

#include <errno.h>
#include <stdint.h>

#include "base/atomic.h"
#include "os/copy_out.h"

bool hk_os_peek(const void *address, void **word) {
  long copied = hk_os_copy_by_kernel(word, (uintptr_t)address, sizeof *word);
  if (copied == (long)sizeof *word) return true;
  if (copied == -EFAULT || !hk_os_can_read((uintptr_t)address)) return false;
  *word = hk_load_racy((void *const *)address);
  return true;
}
