/* heap/spare.h - L4. Free slabs that a heap keeps for its own next spans and runs. They spare it the lock and the
 * search for a place. The heap keeps slabs that it has used, and the reserve: a few more slabs than it needed when it
 * grew. The reserve is untouched and costs no memory.
 *
 * Slabs stay together in the rows in which they were freed, and a row serves requests for exactly its number of slabs.
 * Every check finds them free (any pointer into them is misuse), and their superslab counts them as in use. All
 * functions are for the thread that has the heap.
 */
#ifndef HK_HEAP_SPARE_H
#define HK_HEAP_SPARE_H

#include "heap/heap.h"
#include "heap/heap_check.h"

/* Returns whether there is a spare row of `slab_count` slabs (1 to HK_RUN_MAX_SLABS). */
HK_INLINE bool hk_spare_has(const hk_heap_t *heap, unsigned slab_count) {
  return !hk_list_is_empty(&heap->spare[slab_count - 1]);
}

/* Makes a spare row of `slab_count` slabs a block, and returns it. Requires hk_spare_has. */
void *hk_spare_take_row(hk_heap_t *heap, unsigned slab_count);

/* Returns a block of `slab_count` slabs (1 to HK_RUN_MAX_SLABS): a spare row, or else a sparse run (sparse_run.h); NULL
 * when there is neither. */
HK_INLINE void *hk_spare_take_run(hk_heap_t *heap, unsigned slab_count) {
  if (HK_UNLIKELY(hk_spare_has(heap, slab_count))) return hk_spare_take_row(heap, slab_count);
  hk_slab_t *head = hk_sparse_take(&heap->sparse, slab_count);
  return head != NULL ? hk_run_reopen_closed(head) : NULL;
}

/* Returns slabs for a span: from the spare rows, then from the reserve, then from the superslabs. Its `is_zero` says
 * whether they are known to be zero. Returns NULL when the system refuses. */
hk_slab_t *hk_spare_acquire(hk_heap_t *heap, unsigned slab_count);

/* Keeps the row at `head`, a span's head->slab_count retired slabs. When there is no room, all other rows and the
 * reserve go to the superslabs first, and so does the row itself when it exceeds the heap's room or HK_RUN_MAX_SLABS.
 * The room grows as often as it was too short, up to the options `spare_slabs` and `retain`. */
void hk_spare_put_span(hk_heap_t *heap, hk_slab_t *head);

/* Keeps a closed run as hk_spare_put_span keeps a span's row, but leaves the reserve. Where there is no room, the heap
 * may keep the run as a sparse one. The first function does so for all runs but known ones that come back. */
void hk_spare_put_run_slow(hk_heap_t *heap, hk_slab_t *head);
HK_INLINE void hk_spare_put_run(hk_heap_t *heap, hk_slab_t *head) {
  if (HK_UNLIKELY(!hk_sparse_keep_returned(&heap->sparse, head))) hk_spare_put_run_slow(heap, head);
  hk_heap_check_spare(heap);
}

/* Gives sparse runs back that the program no longer requests, some at a time. Called on slow paths. */
HK_COLD void hk_spare_pass_time_slow(hk_heap_t *heap);
HK_INLINE void hk_spare_pass_time(hk_heap_t *heap) {
  bool is_rare = hk_load_relaxed(&heap->stat.value[hk_stat_refill]) % 16 == 0; /* a line that a refill writes */
  if (HK_UNLIKELY(is_rare && hk_load_relaxed(&heap->sparse.kept.slabs) > 0)) hk_spare_pass_time_slow(heap);
}

/* Gives all spare rows and the reserve to the superslabs. */
void hk_spare_flush(hk_heap_t *heap);

#endif /* HK_HEAP_SPARE_H */
