/* space/short_span.h - L3. Short spans: near a limit on addresses, a span has only the pages that its blocks need: the
 * first ones of its last slab, and of each other slab those up to the last whole block.
 *
 * RLIMIT_AS and RLIMIT_DATA count pages that are mapped, not addresses. A class that needs one block then costs a page
 * or two instead of 64 KiB, and the pages of a span that were never carved serve other classes.
 *
 * The rest of a slab is a hole, and anything may be mapped there. So a short span's slabs are in use in their superslab
 * while the span exists, and leave the superslab with it: they are never free slabs. The sums of bytes count them as
 * whole slabs.
 */
#ifndef HK_SPACE_SHORT_SPAN_H
#define HK_SPACE_SHORT_SPAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"
#include "policy/size_class.h"
#include "space/slab.h"

/* Returns the mapped bytes of a span's last slab. */
HK_INLINE size_t hk_short_span_last_bytes(const hk_slab_t *span) {
  return hk_load_relaxed(&((hk_slab_t *)span)->bytes);
}

HK_INLINE bool hk_short_span_is(const hk_slab_t *span) { return hk_short_span_last_bytes(span) != HK_SLAB_BYTES; }

/* Returns whether an address `offset` bytes into `slab` of the span lies behind the span's mapped bytes. Any thread: a
 * span that another thread ends may have other ones by then. */
HK_INLINE bool hk_short_span_is_behind(hk_slab_t *span, const hk_slab_t *slab, size_t offset) {
  return slab - span + 1 == hk_load_racy(&span->slab_count) && offset >= hk_short_span_last_bytes(span);
}

/* Returns the number of blocks that a span, short or not, has room for. */
HK_INLINE unsigned hk_span_capacity(const hk_slab_t *span) {
  unsigned per_slab = hk_class_blocks_per_slab(span->class_index);
  if (HK_LIKELY(!hk_short_span_is(span))) return span->slab_count * per_slab;
  size_t in_last = hk_short_span_last_bytes(span) / hk_class_bytes(span->class_index);
  return (span->slab_count - 1u) * per_slab + (unsigned)in_last;
}

/* Maps the first `bytes` of a new slab, whole pages. Returns its descriptor, as hk_superslab_acquire does. Returns NULL
 * when the system refuses, or when there are very many short spans. */
hk_slab_t *hk_short_span_acquire(size_t bytes);

typedef enum {
  hk_shorten_nothing, /* there is nothing to unmap */
  hk_shorten_done,
  hk_shorten_refused, /* by the system, or because there are very many short spans */
} hk_shorten_t;

/* Makes the span short: unmaps what lies behind the first `bytes`, whole pages, of its last slab, where no block was
 * carved, and the ends of its other slabs. */
hk_shorten_t hk_short_span_shorten(hk_slab_t *span, size_t bytes);

/* Unmaps the slabs of a short span that has been retired. */
void hk_short_span_release(hk_slab_t *span);

#endif /* HK_SPACE_SHORT_SPAN_H */
