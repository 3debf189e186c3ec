/* heap/prefault.c - L4. See prefault.h. */
#include "heap/prefault.h"

#include "base/arithmetic.h"
#include "heap/span.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/price.h"
#include "space/superslab.h"

/* Cutting writes to each tiny block, and so to each page. Of mid blocks whole parts of a slab are made resident, so that where
 * one begins says whether the one before is. 0: nothing is. */
static size_t step_bytes(const hk_slab_t *span, bool has_grown) {
  if (!hk_class_is_mid(span->class_index)) return hk_os_page_size();
  bool is_worth_it = has_grown && span->block_bytes <= HK_PREFAULT_MAX_BLOCK && hk_option.mode <= HK_PRICE_BALANCED;
  return is_worth_it ? HK_PREFAULT_BYTES : 0;
}

void hk_prefault(hk_heap_t *heap, const hk_slab_t *span, unsigned count, bool has_grown) {
  unsigned carved = hk_load_relaxed(&((hk_slab_t *)span)->carved), room = hk_span_capacity(span) - carved;
  if (count > room) count = room;
  size_t block_bytes = span->block_bytes, page_bytes = hk_os_page_size(), step = step_bytes(span, has_grown);
  if (count == 0 || step < page_bytes) return;
  unsigned last = carved + count - 1, per_slab = hk_class_blocks_per_slab(span->class_index);
  uintptr_t start = hk_slab_start(span), last_slab = start + last / per_slab * HK_SLAB_BYTES;
  uintptr_t from = hk_align_up(hk_span_block_start(start, per_slab, block_bytes, carved), step);
  uintptr_t to = hk_align_up(hk_span_block_start(start, per_slab, block_bytes, last) + block_bytes, step);
  uintptr_t end_of_blocks = hk_align_up(last_slab + per_slab * block_bytes, page_bytes);
  if (to > end_of_blocks) to = end_of_blocks;
  if (to < from + 2 * page_bytes) return;
  if (hk_os_prefault((void *)from, to - from)) hk_stat_bump(&heap->stat, hk_stat_prefault, to - from);
}
