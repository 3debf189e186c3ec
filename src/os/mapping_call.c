/* os/mapping_call.c - L1. See mapping_call.h. */
#define _GNU_SOURCE 1

#include "os/mapping_call.h"

#include <errno.h>
#include <sys/mman.h>

#include "os/call_count.h"
#include "os/syscall.h"

/* Not MAP_NORESERVE: the kernel refuses here what the machine can never back, as for the C library's malloc, instead of
 * ending the process later. */
enum { private_zeros = MAP_PRIVATE | MAP_ANONYMOUS };

#if HK_SANITIZED

static long kernel_answer(long result, int *saved_errno) {
  if (result == -1) result = -errno;
  errno = *saved_errno;
  return result;
}

long hk_mapping_call_map(uintptr_t hint, size_t bytes, int access, int more_flags) {
  int saved_errno = errno;
  hk_call_count_note(SYS_mmap);
  void *start = mmap((void *)hint, bytes, access, private_zeros | more_flags, -1, 0);
  return kernel_answer((long)start, &saved_errno);
}

long hk_mapping_call_unmap(uintptr_t start, size_t bytes) {
  int saved_errno = errno;
  hk_call_count_note(SYS_munmap);
  return kernel_answer(munmap((void *)start, bytes), &saved_errno);
}

long hk_mapping_call_remap(uintptr_t start, size_t old_bytes, size_t new_bytes, int flags, uintptr_t target) {
  int saved_errno = errno;
  hk_call_count_note(SYS_mremap);
  return kernel_answer((long)mremap((void *)start, old_bytes, new_bytes, flags, (void *)target), &saved_errno);
}

#else

long hk_mapping_call_map(uintptr_t hint, size_t bytes, int access, int more_flags) {
  return hk_syscall6(SYS_mmap, (long)hint, (long)bytes, access, private_zeros | more_flags, -1, 0);
}

long hk_mapping_call_unmap(uintptr_t start, size_t bytes) { return hk_syscall2(SYS_munmap, (long)start, (long)bytes); }

long hk_mapping_call_remap(uintptr_t start, size_t old_bytes, size_t new_bytes, int flags, uintptr_t target) {
  return hk_syscall6(SYS_mremap, (long)start, (long)old_bytes, (long)new_bytes, flags, (long)target, 0);
}

#endif

long hk_mapping_call_advise(void *start, size_t bytes, int advice) {
  return hk_syscall3(SYS_madvise, (long)start, (long)bytes, advice);
}
