/* os/os_bare_thread.c - L1. Implements the bare thread of os.h on Linux: a thread of the system call alone, the one way
 * to make a thread in a signal handler. The C library counts its own threads and waits for them when a program changes
 * its user, ends, or unloads a library. It does neither for this thread. */
#include <errno.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "os/process.h"
#include "os/signal_action.h"
#include "os/stack_top.h"
#include "os/syscall.h"

/* Chosen: bytes around the thread-local variables in use, so that the library's other variables and the C library's
 * data of the thread lie in the new memory too. Untouched pages cost nothing. */
#define AROUND_BYTES (64 * HK_KIB)

/* The C library's flags for a thread, without those that report the thread's end to it. */
#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS)

/* From low to high: an inaccessible page, the stack, the thread-local memory. */
typedef struct {
  uintptr_t start;
  size_t bytes;
  uintptr_t stack_top;
  uintptr_t thread_pointer;
} area_t;

/* The mark of the process that has the bare thread; 0: none. */
static _Atomic(uint64_t) process;

bool hk_os_bare_thread_claim(void) {
  uint64_t own = hk_process_mark(), found = hk_load_relaxed(&process);
  return found != own && hk_compare_exchange_acquire(&process, &found, own);
}

bool hk_os_bare_thread_is_claimed(void) {
  uint64_t found = hk_load_relaxed(&process);
  return found != 0 && found == hk_process_mark();
}

void hk_os_bare_thread_give_up(void) { hk_store_release(&process, 0); /* with the acquire of the next claim */ }

#if HK_SANITIZED

/* Refuses: sanitizers keep records of each thread, which they find through its thread-local memory. */
bool hk_os_bare_thread_start(const char *name, void (*run)(void)) {
  (void)name;
  (void)run;
  return false;
}

#else

/* Written by the thread that has the claim, and read by the new thread before it can give the claim up. */
static area_t next_area;
static const char *next_name;
static void (*next_run)(void);

static HK_THREAD_LOCAL char own_variable;

/* Returns the distance from the thread pointer that covers all thread-local memory in use, below it or above. */
static size_t reach_bytes(uintptr_t pointer) {
  const uintptr_t used[] = {(uintptr_t)&own_variable, (uintptr_t)&errno};
  size_t farthest = 0;
  for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
    size_t distance = used[i] < pointer ? pointer - used[i] : used[i] - pointer;
    farthest = hk_larger(farthest, distance);
  }
  return hk_align_up(farthest + AROUND_BYTES, 64 * HK_KIB);
}

/* Writes the thread pointer to where it points, as x86-64 code reads it from there. The C library's record of the
 * thread begins there too. */
static void begin_record(uintptr_t pointer) {
#if defined(__x86_64__)
  uintptr_t *record = (uintptr_t *)pointer;
  record[0] = record[2] = pointer;
#else
  (void)pointer;
#endif
}

static bool map_area(area_t *area) {
  size_t guard_bytes = hk_os_page_size(), reach = reach_bytes(hk_os_thread_pointer());
  area->bytes = guard_bytes + HK_OS_BARE_STACK_BYTES + 2 * reach;
  long start = hk_syscall6(SYS_mmap, 0, (long)area->bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (hk_syscall_failed(start)) return false;
  area->start = (uintptr_t)start;
  area->stack_top = area->start + guard_bytes + HK_OS_BARE_STACK_BYTES;
  area->thread_pointer = area->stack_top + reach;
  (void)hk_syscall3(SYS_mprotect, start, (long)guard_bytes, PROT_NONE);
  begin_record(area->thread_pointer);
  return true;
}

/* Unmaps the stack that the thread runs on and ends the thread. No memory may be touched after the first call. */
static HK_NORETURN void leave(uintptr_t start, size_t bytes) {
#if defined(__x86_64__)
  __asm__ volatile(
      "syscall\n\t"
      "xorl %%edi, %%edi\n\t"
      "movl %[end], %%eax\n\t"
      "syscall\n\t"
      "ud2"
      :
      : "a"((long)SYS_munmap), "D"(start), "S"(bytes), [end] "i"(SYS_exit)
      : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = SYS_munmap;
  register uintptr_t x0 __asm__("x0") = start;
  register size_t x1 __asm__("x1") = bytes;
  __asm__ volatile(
      "svc 0\n\t"
      "mov x0, xzr\n\t"
      "mov x8, %[end]\n\t"
      "svc 0\n\t"
      "brk 1"
      :
      : "r"(x8), "r"(x0), "r"(x1), [end] "i"(SYS_exit)
      : "memory");
#endif
  __builtin_unreachable();
}

static HK_NORETURN void begin(void) {
  area_t area = next_area;
  hk_own_thread_begin(hk_own_thread_bare, next_name);
  next_run();
  leave(area.start, area.bytes);
}

/* Starts the thread. Returns its number or a negated errno. The new thread continues at `begin` with no frame above on
 * its stack. */
static long clone_thread(const area_t *area) {
#if defined(__x86_64__)
  register uintptr_t r8 __asm__("r8") = area->thread_pointer;
  register long r10 __asm__("r10") = 0;
  long result;
  __asm__ volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "callq *%[begin]\n\t"
      "ud2\n"
      "1:"
      : "=a"(result)
      : "a"((long)SYS_clone), "D"((long)FLAGS), "S"(area->stack_top), "d"(0l), "r"(r10), "r"(r8), [begin] "b"(begin)
      : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = FLAGS;
  register uintptr_t x1 __asm__("x1") = area->stack_top;
  register long x2 __asm__("x2") = 0;
  register uintptr_t x3 __asm__("x3") = area->thread_pointer;
  register long x4 __asm__("x4") = 0;
  register void (*x9)(void) __asm__("x9") = begin;
  __asm__ volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "blr x9\n\t"
      "brk 1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x9)
      : "memory");
  return x0;
#endif
}

/* Starts the thread with all signals blocked but those that it causes itself, so that it begins with that mask. */
static bool clone_masked(const area_t *area) {
  uint64_t before;
  if (!hk_signal_mask_change(SIG_SETMASK, ~HK_SIGNALS_OF_ITS_OWN, &before)) return false;
  long thread = hk_own_thread_announce(hk_own_thread_bare) ? clone_thread(area) : -EPERM;
  hk_signal_mask_restore(before);
  if (hk_syscall_failed(thread)) hk_own_thread_withdraw(hk_own_thread_bare);
  return !hk_syscall_failed(thread);
}

bool hk_os_bare_thread_start(const char *name, void (*run)(void)) {
  if (hk_sandbox_may_kill()) return false; /* the C library makes its threads by another call */
  if (!map_area(&next_area)) return false;
  next_name = name;
  next_run = run;
  if (clone_masked(&next_area)) return true;
  (void)hk_syscall2(SYS_munmap, (long)next_area.start, (long)next_area.bytes);
  return false;
}

#endif
