/* os/peek.c - L1. See peek.h. */
#include "os/peek.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/os.h"
#include "os/syscall.h"

/* How many bytes, or a negated error number. */
static long read_memory(void *to, const void *from, size_t bytes) {
  struct iovec target = {to, bytes};
  struct iovec source = {(void *)from, bytes};
  return hk_syscall6(SYS_process_vm_readv, (long)hk_os_process_id(), (long)&target, 1, (long)&source, 1, 0);
}

bool hk_os_copy(void *to, const void *from, size_t bytes) { return read_memory(to, from, bytes) == (long)bytes; }

bool hk_os_peek(const void *address, void **word) {
  long copied = read_memory(word, address, sizeof *word);
  if (copied == (long)sizeof *word) return true;
  if (copied == -EFAULT) return false;
  *word = __atomic_load_n((void *const *)address, __ATOMIC_RELAXED);
  return true;
}
