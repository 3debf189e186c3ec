/* heap/heap_check.h - L4. In debug builds, walks over all that a heap owns, after each slow path: its bins and their
 * spans, its spare slabs, its outbox. heap.h and slab.h state the invariants.
 *
 * A walk looks only at what its thread owns: blocks in `incoming` and in outboxes count as in use. It allocates nothing
 * and changes nothing. It leaves a damaged list to api/misuse.h, since the program causes damage. All functions are for
 * the thread that has the heap, and panic with the sentence that does not hold.
 */
#ifndef HK_HEAP_HEAP_CHECK_H
#define HK_HEAP_HEAP_CHECK_H

#include "heap/heap.h"

#if HK_DEBUG

/* Checks one span: its descriptors, and its list against its counts. Panics on a damaged list too. */
void hk_span_check(const hk_heap_t *heap, const hk_slab_t *span);

/* Ends a slow path of a class: checks its bin, its active span and the first partial ones, and all of the heap when
 * that is due (base/walk.h). */
void hk_heap_check_class(hk_heap_t *heap, unsigned class_index);

/* Ends a slow path of a span that is not active. `slab` is any slab of it; the heap may have lost it. */
void hk_heap_check_span(hk_heap_t *heap, const hk_slab_t *slab);

/* Ends a change of the spare slabs. */
void hk_heap_check_spare(const hk_heap_t *heap);

/* Ends a slow path that concerns many classes: checks all of the heap when that is due. The caller holds no lock. */
void hk_heap_check(hk_heap_t *heap);

/* hk_heap_check for a heap that is about to be given back: its outbox and its closed bins are empty. */
void hk_heap_check_at_rest(hk_heap_t *heap);

/* Ends the check of counts in a child of fork. A thread that has vanished, or this thread before its signal handler
 * forked, may have been moving a block or a span that is in no list or not counted. */
void hk_heap_check_note_fork(void);

#else

HK_INLINE void hk_heap_check_class(hk_heap_t *heap, unsigned class_index) { (void)heap, (void)class_index; }
HK_INLINE void hk_heap_check_span(hk_heap_t *heap, const hk_slab_t *slab) { (void)heap, (void)slab; }
HK_INLINE void hk_heap_check_spare(const hk_heap_t *heap) { (void)heap; }
HK_INLINE void hk_heap_check(hk_heap_t *heap) { (void)heap; }
HK_INLINE void hk_heap_check_at_rest(hk_heap_t *heap) { (void)heap; }
HK_INLINE void hk_heap_check_note_fork(void) {}

#endif

#endif /* HK_HEAP_HEAP_CHECK_H */
