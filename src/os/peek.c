/* os/peek.c - L1. See peek.h. */
#include "os/peek.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/os.h"
#include "os/syscall.h"

bool hk_os_peek(const void *address, void **word) {
  struct iovec to = {word, sizeof *word};
  struct iovec from = {(void *)address, sizeof *word};
  long copied = hk_syscall6(SYS_process_vm_readv, (long)hk_os_process_id(), (long)&to, 1, (long)&from, 1, 0);
  if (copied == (long)sizeof *word) return true;
  if (copied == -EFAULT) return false;
  *word = __atomic_load_n((void *const *)address, __ATOMIC_RELAXED);
  return true;
}
