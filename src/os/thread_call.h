/* os/thread_call.h - L1. The threads of this process, and what the kernel has kept of the registers of those that wait
 * in it: what they gave to the system call, and how far down their stacks go. Read from /proc, which no thread notices:
 * a signal, or a tracer, would end some system calls early (epoll_wait whatever SA_RESTART says).
 *
 * Registers that a function must leave as they are (rbx, rbp, r12 to r15; x19 to x29) the kernel keeps as well, and
 * tells nobody. */
#ifndef HK_OS_THREAD_CALL_H
#define HK_OS_THREAD_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Below the stack pointer a function that calls no other may have so much on the stack (x86-64's red zone), and so
 * while it waits in a system call of its own. */
#define HK_RED_ZONE_BYTES 128

typedef enum {
  hk_thread_runs,    /* or nobody says what it does: nothing is known */
  hk_thread_pauses,  /* outside a system call, for a page that is read in, say: the last two words are known */
  hk_thread_calls,   /* it waits in a system call */
  hk_thread_is_over, /* it has neither registers nor a stack, though it has a number yet */
} hk_thread_state_t;

typedef enum {
  hk_thread_arguments = 6,
  hk_thread_stack_pointer = hk_thread_arguments,
  hk_thread_code_pointer,
  hk_thread_words
} hk_thread_word_t;

/* What is not known is 0. */
typedef struct {
  hk_thread_state_t state;
  uint64_t number; /* of the system call */
  uintptr_t word[hk_thread_words];
} hk_thread_call_t;

/* Of the thread that has this number, which may be the caller: it waits in a call of its own then. */
hk_thread_call_t hk_thread_call_of(uint64_t thread);

/* The same of the kernel's words for it. For hk_thread_call_of, and for tests. */
hk_thread_call_t hk_thread_call_parse(const char *line);

/* Visits the threads' numbers, the caller's too. One that begins or ends meanwhile may be left out. False when the
 * system does not say. */
bool hk_thread_call_each(void (*visit)(void *context, uint64_t thread), void *context);

/* The caller's number. */
uint64_t hk_thread_call_own(void);

HK_C_END

#endif /* HK_OS_THREAD_CALL_H */
