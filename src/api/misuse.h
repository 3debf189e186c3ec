/* api/misuse.h - L5. Reports misuse, and does what the option `on_misuse` says. The only place that has these messages;
 * docs/errors.md explains each kind. */
#ifndef HK_API_MISUSE_H
#define HK_API_MISUSE_H

#include "base/compiler.h"
#include "heap/heap.h"

/* What the program tried to do with the address. */
typedef enum { hk_act_free, hk_act_realloc, hk_act_usable_size } hk_act_t;

/* Reports an address that is no live block, at a function that requires one. Returns unless `on_misuse` is `abort`; the
 * caller then leaves the address alone. */
HK_COLD void hk_misuse_address(hk_act_t act, const void *address);

/* Reports a free block that was written to. Returns unless `on_misuse` is `abort`; the caller then drops the list with
 * the block. */
HK_COLD void hk_misuse_damage(const void *block);

/* Reports a named heap that is used, or destroyed again, after its end. Returns unless `on_misuse` is `abort`; the
 * caller then does nothing. */
HK_COLD void hk_misuse_heap(const void *heap, const char *name);

/* Reports that blocks of a named heap are in use at its end. Never aborts. */
HK_COLD void hk_misuse_leaked_heap(const char *name, uint64_t blocks, uint64_t bytes);

/* Reports a block that the program frees after a write behind its `bytes`. Returns as hk_misuse_address does. */
HK_COLD void hk_misuse_overflow(const void *block, size_t bytes);

/* Reports a block that the program frees as one of another size or alignment. `alignment` is NULL when the program told
 * none. Returns as hk_misuse_address does. */
HK_COLD void hk_misuse_wrong_size(const void *block, size_t bytes, const size_t *alignment, size_t size);

/* Reports the damaged block that a drain of `heap` has found, if any. */
HK_INLINE void hk_misuse_report_damaged(hk_heap_t *heap) {
  if (HK_LIKELY(heap->damaged == NULL)) return;
  const void *block = heap->damaged;
  heap->damaged = NULL;
  hk_misuse_damage(block);
}

#endif /* HK_API_MISUSE_H */
