/* api/misuse.h - L5. Reports misuse, and does what the option `on_misuse` says. The only place that has these messages;
 * docs/errors.md explains each kind. */
#ifndef HK_API_MISUSE_H
#define HK_API_MISUSE_H

#include "base/compiler.h"
#include "heap/heap.h"

/* What the program tried to do with the address. */
typedef enum { hk_act_free, hk_act_realloc, hk_act_ask_size } hk_act_t;

/* Reports an address that is no live block, at a function that requires one. Returns unless `on_misuse` is `abort`; the
 * caller then leaves the address alone. */
HK_COLD void hk_misuse_address(hk_act_t act, const void *address);

/* Reports a free block that was written to. Returns unless `on_misuse` is `abort`; the caller then drops the list with
 * the block. */
HK_COLD void hk_misuse_damage(const void *block);

/* Reports the damaged block that a drain of `heap` has found, if any. */
HK_INLINE void hk_misuse_take_up(hk_heap_t *heap) {
  if (HK_LIKELY(heap->damaged == NULL)) return;
  const void *block = heap->damaged;
  heap->damaged = NULL;
  hk_misuse_damage(block);
}

#endif /* HK_API_MISUSE_H */
