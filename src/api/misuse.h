/* api/misuse.h - L5. What is said, and done, when a program hands in what is no block of its own. The only place
 * that knows these texts; docs/errors.md explains each kind. */
#ifndef HK_API_MISUSE_H
#define HK_API_MISUSE_H

#include "base/compiler.h"
#include "heap/heap.h"

/* What the program wanted to do with the address. */
typedef enum { hk_act_free, hk_act_realloc, hk_act_ask_size } hk_act_t;

/* `address` was handed to a function that needs a live block, and is none. Returns unless on_misuse is `abort`: the
 * caller then leaves the address alone. */
HK_COLD void hk_misuse_address(hk_act_t act, const void *address);

/* A free block was written to. Returns unless on_misuse is `abort`: the caller then drops the list it was in. */
HK_COLD void hk_misuse_damage(const void *block);

/* Reports the damaged block that a drain of `heap` came upon, if it did. */
HK_INLINE void hk_misuse_take_up(hk_heap_t *heap) {
  if (HK_LIKELY(heap->damaged == NULL)) return;
  const void *block = heap->damaged;
  heap->damaged = NULL;
  hk_misuse_damage(block);
}

#endif /* HK_API_MISUSE_H */
