/* os/os_process.c - L1. Implements the facts about the process of os.h on Linux: what the kernel passed to it, its
 * environment, its number. The C library's getauxval may be interposed by one that allocates. */
#define _GNU_SOURCE 1

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/atomic.h"
#include "os/os.h"
#include "os/sandbox.h"
#include "os/syscall.h"
#include "os/thread_call.h"

/* The last answer of hk_os_process_id; 0: none yet. */
static _Atomic(long) process_id;

/* Returns a value that the kernel passed to the process; 0: none. Leaves errno as it is. */
static unsigned long auxiliary(unsigned long type) {
  int saved_errno = errno;
  unsigned long value = getauxval(type);
  errno = saved_errno;
  return value;
}

/* auxiliary, which reads the value once and keeps it in `*known`. That begins with 0. */
HK_INLINE unsigned long auxiliary_once(_Atomic(unsigned long) *known, unsigned long type) {
  unsigned long value = hk_load_relaxed(known);
  if (HK_UNLIKELY(value == 0)) {
    value = auxiliary(type);
    hk_store_relaxed(known, value);
  }
  return value;
}

size_t hk_os_page_size(void) {
  static _Atomic(unsigned long) known;
  return auxiliary_once(&known, AT_PAGESZ);
}

uintptr_t hk_os_vdso(void) {
  static _Atomic(unsigned long) known;
  return auxiliary_once(&known, AT_SYSINFO_EHDR);
}

/* The factor of hk_hash, and an odd one whose bits are as irregular, for the rounds of a multiply-xorshift hash. */
#define FIRST_FACTOR UINT64_C(0x9e3779b97f4a7c15)
#define SECOND_FACTOR UINT64_C(0xd6e8feb86659fd93)

uint64_t hk_os_process_secret(void) {
  const char *random = (const char *)auxiliary(AT_RANDOM);
  /* An emulator may not supply the random bytes. The secret then comes from addresses alone. */
  uint64_t words[2] = {(uintptr_t)&environ, (uintptr_t)&process_id};
  if (random != NULL) __builtin_memcpy(words, random, sizeof(words));
  /* The C library's stack and pointer guards are these very words. The secret mixes both, so that neither can be read
   * from it. */
  uint64_t mixed = words[0] * FIRST_FACTOR;
  mixed = ((mixed ^ (mixed >> 32)) + words[1]) * SECOND_FACTOR;
  mixed = (mixed ^ (mixed >> 32)) * SECOND_FACTOR;
  return mixed ^ (mixed >> 32);
}

const char *const *hk_os_environment(void) { return (const char *const *)environ; }

/* Returns the process number where getpid is refused, or may kill: the last answer. Without one the caller counts as
 * the first thread, whose number is the process's. The first query comes at the start, so the number stays the same
 * when the refusals end. */
static HK_COLD long guess_process_id(void) {
  long found = hk_load_relaxed(&process_id);
  if (found != 0) return found;
  long thread = (long)hk_thread_call_own();
  if (thread > 0) hk_store_relaxed(&process_id, thread);
  return thread > 0 ? thread : 0;
}

uint64_t hk_os_process_id(void) {
  long process = hk_syscall2(SYS_getpid, 0, 0);
  if (HK_UNLIKELY(process < 0)) return (uint64_t)guess_process_id();
  hk_store_relaxed(&process_id, process);
  return (uint64_t)process;
}

void hk_os_process_id_after_fork(void) {
  if (hk_sandbox_may_kill()) hk_store_relaxed(&process_id, (long)hk_thread_call_own());
}

bool hk_os_is_secure_exec(void) { return auxiliary(AT_SECURE) != 0; }
