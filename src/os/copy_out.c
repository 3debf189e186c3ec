/* os/copy_out.c - L1. See copy_out.h. */
#include "os/copy_out.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include "os/os.h"
#include "os/syscall.h"
#include "os/thread_call.h"

/* No answer of such a system call has this value. */
#define NO_ANSWER (-1)

/* Set when the kernel has refused to copy: it then always does. */
static _Atomic(bool) is_refused;

void hk_os_copy_out_refuse(void) { hk_store_relaxed(&is_refused, true); }

static long copy_from(uint64_t thread, void *to, uintptr_t address, size_t bytes) {
  struct iovec target = {to, bytes};
  struct iovec source = {(void *)address, bytes};
  return hk_syscall6(SYS_process_vm_readv, (long)thread, (long)&target, 1, (long)&source, 1, 0);
}

/* The process's number is its first thread's, which has no memory after its end: then the caller's number serves. */
long hk_os_copy_by_kernel(void *to, uintptr_t address, size_t bytes) {
  long copied = copy_from(hk_os_process_id(), to, address, bytes);
  return copied == -ESRCH ? copy_from(hk_thread_call_own(), to, address, bytes) : copied;
}

bool hk_os_copy(void *to, const void *from, size_t bytes) {
  return hk_os_copy_by_kernel(to, (uintptr_t)from, bytes) == (long)bytes;
}

static long copy_some(void *to, uintptr_t address, size_t bytes) {
  long copied = hk_os_copy_by_kernel(to, address, bytes);
  if (copied >= 0) return copied;
  if (copied == -EFAULT) return 0;
  /* The caller's number may be unknown, another thread's not. */
  if (copied != -ESRCH) hk_store_relaxed(&is_refused, true);
  return NO_ANSWER;
}

/* A futex wait for no time, on a value that the word at the address hardly has: the kernel reads the word first. Every
 * sandbox in which a program can have threads permits that call. */
bool hk_os_can_read(uintptr_t address) {
  enum { unlikely_word = 0x5bd1e995 };
  static const struct timespec no_time;
  uintptr_t word = hk_align_down(address, sizeof(uint32_t));
  return hk_syscall4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, unlikely_word, (long)&no_time) != -EFAULT;
}

/* The memory may belong to any thread, so sanitizers do not check this access. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static void copy_plainly(unsigned char *to, uintptr_t address,
                                                                                  size_t bytes) {
  const volatile unsigned char *from = (const volatile unsigned char *)address;
  for (size_t i = 0; i < bytes; i++) to[i] = from[i];
}

static size_t copy_readable(unsigned char *to, uintptr_t address, size_t bytes) {
  size_t page_bytes = hk_os_page_size(), done = 0;
  while (done < bytes) {
    uintptr_t at = address + done, page = hk_align_down(at, page_bytes);
    /* An emulator may report an address beyond all memory as readable. */
    if (at < address || at >> HK_ADDRESS_BITS != 0 || !hk_os_can_read(page)) break;
    size_t here = page + page_bytes - at < bytes - done ? page + page_bytes - at : bytes - done;
    copy_plainly(to + done, at, here);
    done += here;
  }
  return done;
}

size_t hk_os_copy_out(void *to, uintptr_t address, size_t bytes) {
  if (bytes == 0) return 0;
  if (!hk_load_relaxed(&is_refused)) {
    long copied = copy_some(to, address, bytes);
    size_t in_page = hk_align_down(address, hk_os_page_size()) + hk_os_page_size() - address;
    /* The range may end at unmapped memory. Kernels may refuse the whole of such a range. */
    if (copied == 0 && in_page < bytes) copied = copy_some(to, address, in_page);
    if (copied != NO_ANSWER) return (size_t)copied;
  }
  return copy_readable(to, address, bytes);
}

bool hk_os_is_written(uintptr_t page) {
  unsigned char part[512]; /* small, for the caller's stack; most written pages show it at their start */
  for (size_t at = 0; at < hk_os_page_size(); at += sizeof part) {
    if (hk_os_copy_out(part, page + at, sizeof part) != sizeof part) return false;
    for (size_t i = 0; i < sizeof part; i++) {
      if (part[i] != 0) return true;
    }
  }
  return false;
}
