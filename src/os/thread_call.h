/* os/thread_call.h - L1. The threads of this process, and the registers that the kernel has kept of those that wait in
 * it: the arguments of their system calls, and their stack and code pointers. Read from /proc, which does not disturb a
 * thread: a signal or a tracer would end some system calls early (epoll_wait even with SA_RESTART).
 *
 * The kernel also keeps the registers that a function must preserve (rbx, rbp, r12 to r15; x19 to x29), but /proc does
 * not show them.
 */
#ifndef HK_OS_THREAD_CALL_H
#define HK_OS_THREAD_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The bytes below the stack pointer that a function without calls may use (x86-64's red zone), also while it waits in a
 * system call of its own. */
#define HK_RED_ZONE_BYTES 128

typedef enum {
  hk_thread_runs,    /* or unknown: no words are known */
  hk_thread_pauses,  /* waits outside a system call, as for a page that is read in: the last two words are known */
  hk_thread_calls,   /* waits in a system call */
  hk_thread_is_over, /* has neither registers nor a stack, but still a number */
} hk_thread_state_t;

typedef enum {
  hk_thread_arguments = 6,
  hk_thread_stack_pointer = hk_thread_arguments,
  hk_thread_code_pointer,
  hk_thread_words
} hk_thread_word_t;

/* Unknown words are 0. */
typedef struct {
  hk_thread_state_t state;
  uint64_t number; /* of the system call */
  uintptr_t word[hk_thread_words];
} hk_thread_call_t;

/* Returns the call of the thread with this number. The caller's own thread waits in the call that reads the file. */
hk_thread_call_t hk_thread_call_of(uint64_t thread);

/* Returns the CPU time that a thread had when it last went to sleep; 0: unknown. By a file, where a filter may kill for
 * the thread's clock. */
uint64_t hk_thread_call_cpu_ns(uint64_t thread);

/* Returns whether the thread has a file in /proc. */
bool hk_thread_call_is_there(uint64_t thread);

/* Parses the kernel's line for a thread. For hk_thread_call_of, and for tests. */
hk_thread_call_t hk_thread_call_parse(const char *line);

/* Visits the numbers of all threads, the caller's too. May leave out a thread that begins or ends meanwhile. Returns
 * false when the system does not tell. */
bool hk_thread_call_each(void (*visit)(void *context, uint64_t thread), void *context);

/* Returns the caller's number, by the C library's record of the thread where a filter may kill for the call. */
uint64_t hk_thread_call_own(void);

HK_C_END

#endif /* HK_OS_THREAD_CALL_H */
