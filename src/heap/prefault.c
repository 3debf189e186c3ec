/* heap/prefault.c - L4. See prefault.h. */
#include "heap/prefault.h"

#include <stdbool.h>

#include "base/bits.h"
#include "heap/span.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/price.h"
#include "space/superslab.h"

/* Blocks that are about to be cut from one span, by their addresses. */
typedef struct {
  uintptr_t start;
  uintptr_t end;
  uintptr_t slab_end; /* where the last block of the last one's slab ends */
} piece_t;

static piece_t find_piece(const hk_slab_t *span, unsigned first, unsigned count) {
  size_t block_bytes = span->block_bytes;
  unsigned last = first + count - 1, per_slab = hk_class_blocks_per_slab(span->class_index);
  uintptr_t start = hk_slab_start(span), last_slab = start + last / per_slab * HK_SLAB_BYTES;
  return (piece_t){
      .start = hk_span_block_start(start, per_slab, block_bytes, first),
      .end = hk_span_block_start(start, per_slab, block_bytes, last) + block_bytes,
      .slab_end = last_slab + per_slab * block_bytes,
  };
}

/* Above the balanced price nothing is made resident that may not be used soon. */
static bool may_go_ahead(void) {
  return hk_option.mode <= HK_PRICE_BALANCED && hk_os_page_size() < HK_PREFAULT_PART_BYTES;
}

/* Whether all pages before the piece are resident that lie in the part before `part`. */
static bool is_part_before_filled(uintptr_t part, uintptr_t piece_start) {
  if (part % HK_SLAB_BYTES == 0) return false;
  uintptr_t before = part - HK_PREFAULT_PART_BYTES, end = hk_align_up(piece_start, hk_os_page_size());
  return end > before && hk_os_resident_bytes((void *)before, end - before) == end - before;
}

void hk_prefault(hk_heap_t *heap, const hk_slab_t *span, unsigned count) {
  unsigned carved = hk_load_relaxed(&((hk_slab_t *)span)->carved), room = hk_span_capacity(span) - carved;
  if (count > room) count = room;
  if (count == 0) return;
  bool is_mid = hk_class_is_mid(span->class_index);
  if (is_mid && !may_go_ahead()) return;
  /* Cutting writes to each tiny block, and so to each page; of mid blocks whole parts are made resident. */
  size_t page_bytes = hk_os_page_size(), step = is_mid ? HK_PREFAULT_PART_BYTES : page_bytes;
  piece_t piece = find_piece(span, carved, count);
  uintptr_t from = hk_align_up(piece.start, step), to = hk_align_up(piece.end, step);
  if (to > piece.slab_end) to = hk_align_up(piece.slab_end, page_bytes);
  if (to < from + 2 * page_bytes) return;
  if (is_mid && !is_part_before_filled(from, piece.start)) return;
  if (hk_os_prefault((void *)from, to - from)) hk_stat_bump(&heap->stat, hk_stat_prefault, to - from);
}
