/* unwind/stack_reader.h - L6. Reads words of a stack. Plain loads read memory that is known to be the calling
 * thread's own stack. The kernel copies all other memory: the stacks of coroutines and signals, and where damaged
 * frames lead to. */
#ifndef HK_UNWIND_STACK_READER_H
#define HK_UNWIND_STACK_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

#define HK_STACK_COPY_BYTES 1024

typedef struct {
  uintptr_t sp;         /* the frames lie from here on */
  uintptr_t own_start;  /* the thread's own stack, from here */
  uintptr_t own_end;    /* to here; equal: none of it is known */
  uintptr_t copy_start; /* the stack from here on ... */
  size_t copy_bytes;    /* ... is in `copy`: this many bytes */
  unsigned char copy[HK_STACK_COPY_BYTES];
} hk_stack_reader_t;

void hk_stack_reader_init(hk_stack_reader_t *reader, uintptr_t sp);
/* Continues on another stack, or at another part of it. */
void hk_stack_reader_move(hk_stack_reader_t *reader, uintptr_t sp);
/* Returns false when the word cannot be read. */
bool hk_stack_reader_word(hk_stack_reader_t *reader, uintptr_t address, uintptr_t *word);

/* Reads a word of the thread's own stack. Sanitizers do not check the load: it also reads what lies between
 * variables. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static inline uintptr_t hk_stack_reader_own_word(
    uintptr_t address) {
  return *(const volatile uintptr_t *)address;
}

HK_C_END

#endif /* HK_UNWIND_STACK_READER_H */
