/* os/os_sleep.c - L1. Implements hk_os_thread_sleeps and its kin of os.h on Linux.
 *
 * The kernel tells in which system call a thread waits, and its CPU time, to the nanosecond. A thread that waits in a
 * call of the program executes no code of the library, unless a signal handler waits that has interrupted it there. In
 * that case the handler's frame is on the stack, with the registers that the kernel saved. A handler on an alternate
 * stack is not on the thread's first stack.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/units.h"
#include "os/copy_out.h"
#include "os/os.h"
#include "os/peek.h"
#include "os/stack_top.h"
#include "os/syscall.h"
#include "os/thread_call.h"
#include "os/timespec.h"

/* The kernel's clock of a thread's CPU time, made from the thread's number. */
#define CLOCK_OF_THREAD(number) ((long)(int)(~(uint32_t)(number) << 3 | 6u))
#define THREAD_OF_CLOCK(clock) ((uint64_t)(~(uint32_t)(clock) >> 3))

/* Bytes of a stack that are mapped in any case: the C library makes none below 16 KiB, which includes its record of the
 * thread and thread-local memory. */
#define MAPPED_BYTES (8 * HK_KIB)

/* ThreadSanitizer does not see the order that the kernel's lock makes: under it no thread counts as asleep. */
#if defined(__SANITIZE_THREAD__)
#define HK_NO_KERNEL_ORDER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HK_NO_KERNEL_ORDER 1
#endif
#endif
#ifndef HK_NO_KERNEL_ORDER
#define HK_NO_KERNEL_ORDER 0
#endif

/* Chosen: a thread with more bytes on its stack does not count as asleep. */
#define SEARCHED_BYTES (64 * HK_KIB)

#define CHUNK_WORDS 32

/* The C library answers from its record of the thread, without a system call. For a thread without a number glibc
 * refuses, and musl answers with the clock of number 0. */
hk_os_thread_t hk_os_thread_self(void) {
  clockid_t clock;
  if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return (hk_os_thread_t){.number = 0};
  uintptr_t stack_top = hk_os_stack_top((uintptr_t)__builtin_frame_address(0));
  return (hk_os_thread_t){.number = THREAD_OF_CLOCK(clock), .stack_top = stack_top};
}

/* ---- Signal frames. */

/* The pattern is the words around the saved flags, from the code pointer to the address of the floating-point state. */
#if defined(__x86_64__)
enum { code_pointer, flags, segments, floating_point = segments + 5, PATTERN_WORDS };

/* Chosen: no code lies below, and an array of small numbers on a stack is no frame. */
#define LEAST_CODE_POINTER (4 * HK_KIB)

/* Chosen: a frame is shorter (the largest registers, AMX's, take 11 KiB). */
#define FRAME_MAX_BYTES (64 * HK_KIB)

/* Returns whether the words, which were read at `place`, are: a code pointer; flags, of which bit 1 is always set and
 * those above 21 never; the segments, that of 64-bit code and with newer kernels that of the stack; four words of any
 * value; and the address of the floating-point state, which lies above in the same frame, or 0 for a thread without
 * (linux/arch/x86/include/uapi/asm/sigcontext.h). */
static bool is_pattern(const uintptr_t *word, uintptr_t place) {
  bool are_flags = (word[flags] & 2) != 0 && word[flags] >> 22 == 0;
  bool are_segments =
      (word[segments] & 0xffffffffffff) == 0x33 && (word[segments] >> 48 == 0 || word[segments] >> 48 == 0x2b);
  if (!are_flags || !are_segments || word[code_pointer] < LEAST_CODE_POINTER) return false;
  return word[floating_point] == 0 || word[floating_point] - place < FRAME_MAX_BYTES;
}
#else
#define PATTERN_WORDS 1

/* Returns whether the word begins the floating-point registers: FPSIMD_MAGIC and their size
 * (linux/arch/arm64/include/uapi/asm/sigcontext.h). */
static bool is_pattern(const uintptr_t *word, uintptr_t place) {
  (void)place;
  return *word == UINT64_C(0x0000021046508001);
}
#endif

static bool has_pattern(const uintptr_t *words, size_t count, uintptr_t place) {
  for (size_t i = 0; i + PATTERN_WORDS <= count; i++) {
    if (is_pattern(words + i, place + i * sizeof *words)) return true;
  }
  return false;
}

/* Copies another thread's stack, which a sanitizer may have marked. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static bool copy_mapped(uintptr_t *words, uintptr_t from,
                                                                                 size_t count) {
  for (size_t i = 0; i < count; i++) words[i] = ((const volatile uintptr_t *)from)[i];
  return true;
}

static bool copy(uintptr_t *words, uintptr_t from, size_t count, bool is_mapped) {
  if (is_mapped) return copy_mapped(words, from, count);
  size_t bytes = count * sizeof(uintptr_t);
  return hk_os_copy_by_kernel(words, from, bytes) == (long)bytes;
}

/* Returns whether the stack has a signal frame, also true where this is unknown. Chunks overlap by PATTERN_WORDS - 1
 * words, so that no pattern is missed. */
static bool may_have_signal_frame(uintptr_t from, uintptr_t to) {
  bool is_mapped = to - from <= MAPPED_BYTES;
  uintptr_t words[CHUNK_WORDS];
  while (from < to) {
    size_t count = (to - from + sizeof(uintptr_t) - 1) / sizeof(uintptr_t);
    if (count > CHUNK_WORDS) count = CHUNK_WORDS;
    if (!copy(words, from, count, is_mapped) || has_pattern(words, count, from)) return true;
    from += (count < CHUNK_WORDS ? count : CHUNK_WORDS - PATTERN_WORDS + 1) * sizeof(uintptr_t);
  }
  return false;
}

/* ---- The thread. */

/* Returns true for calls in which another task may run with the thread's thread-local memory: a child that shares all
 * memory, while the thread makes it or waits for its end. */
static bool is_shared_call(uint64_t number) {
#ifdef SYS_vfork
  if (number == SYS_vfork) return true;
#endif
  return number == SYS_clone || number == SYS_clone3 || number == SYS_wait4 || number == SYS_waitid;
}

static bool is_on_own_stack(uintptr_t stack_pointer, uintptr_t top) {
  return stack_pointer % sizeof(uintptr_t) == 0 && stack_pointer < top && top - stack_pointer <= SEARCHED_BYTES;
}

static long clock_call(const hk_os_thread_t *thread, struct timespec *cpu) {
  return hk_syscall2(SYS_clock_gettime, CLOCK_OF_THREAD(thread->number), (long)cpu);
}

/* Returns the thread's CPU time; 0: unknown. */
static uint64_t cpu_ns(const hk_os_thread_t *thread) {
  struct timespec cpu;
  if (hk_sandbox_may_kill()) return hk_thread_call_cpu_ns(thread->number);
  if (clock_call(thread, &cpu) != 0) return 0;
  return hk_timespec_to_ns(cpu);
}

static bool is_outside(const hk_os_thread_t *thread) {
  hk_thread_call_t call = hk_thread_call_of(thread->number);
  if (call.state != hk_thread_calls || is_shared_call(call.number)) return false;
  if (call.word[hk_thread_code_pointer] == (uintptr_t)hk_syscall_end) return false;
  uintptr_t stack_pointer = call.word[hk_thread_stack_pointer], top = thread->stack_top;
  return is_on_own_stack(stack_pointer, top) && !may_have_signal_frame(stack_pointer, top);
}

/* To tell in which call a thread waits, the kernel takes the lock of the thread's run queue. A thread without CPU time
 * meanwhile has slept while its stack was read. */
bool hk_os_thread_sleeps(const hk_os_thread_t *thread) {
  if (HK_NO_KERNEL_ORDER || hk_sandbox_is_own()) return false;
  uint64_t before_ns = cpu_ns(thread);
  return before_ns != 0 && is_outside(thread) && cpu_ns(thread) == before_ns;
}

bool hk_os_thread_has_word(const hk_os_thread_t *thread, const void *address, const void *word) {
  struct timespec cpu;
  void *found;
  if (hk_sandbox_may_kill() || clock_call(thread, &cpu) != 0) return false;
  return hk_os_peek(address, &found) && found == word;
}

/* A thread without a clock has ended, or no clock can be read. The calling thread's own clock tells which: a child that
 * shares all memory may have its parent's record of the thread, and then finds no clock for itself. */
bool hk_os_thread_has_ended(const hk_os_thread_t *thread) {
  struct timespec cpu;
  if (HK_NO_KERNEL_ORDER || hk_sandbox_may_kill() || clock_call(thread, &cpu) == 0) return false;
  hk_os_thread_t self = hk_os_thread_self();
  if (self.number == 0 || clock_call(&self, &cpu) != 0) return false;
  return hk_syscall3(SYS_tgkill, (long)hk_os_process_id(), (long)thread->number, 0) == -ESRCH;
}
