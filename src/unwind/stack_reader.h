/* unwind/stack_reader.h - L6. Reading words of a stack. What is known to be the calling thread's own stack is read plainly, all else
 * (a coroutine's, a signal stack, where damaged frames lead to) by copies. */
#ifndef HK_UNWIND_STACK_READER_H
#define HK_UNWIND_STACK_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

#define HK_STACK_WINDOW_BYTES 1024

typedef struct {
  uintptr_t sp;        /* nothing of interest lies below */
  uintptr_t own_start; /* the thread's own stack, from here */
  uintptr_t own_end;   /* to here; equal: none of it */
  uintptr_t window;
  size_t window_bytes;
  unsigned char copy[HK_STACK_WINDOW_BYTES];
} hk_stack_reader_t;

void hk_stack_reader_init(hk_stack_reader_t *reader, uintptr_t sp);
/* Goes on with another stack, or another part of it. */
void hk_stack_reader_move(hk_stack_reader_t *reader, uintptr_t sp);
/* False where nothing can be read. */
bool hk_stack_reader_word(hk_stack_reader_t *reader, uintptr_t address, uintptr_t *word);

/* A word of the thread's own stack. What lies between variables is nobody's business but ours: sanitizers are not asked. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static inline uintptr_t hk_stack_reader_own_word(
    uintptr_t address) {
  return *(const volatile uintptr_t *)address;
}

HK_C_END

#endif /* HK_UNWIND_STACK_READER_H */
