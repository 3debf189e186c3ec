/* heap/span_prefault.c - L4. See span_prefault.h. */
#include "heap/span_prefault.h"

#include <stdbool.h>

#include "base/bits.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/price.h"
#include "space/timed_call.h"

/* Returns whether memory may be prefaulted that may not be used soon: up to the balanced price. */
static bool may_go_ahead(void) {
  return hk_option.mode <= HK_PRICE_BALANCED && hk_os_page_size() < HK_PREFAULT_PART_BYTES;
}

/* Returns whether all pages of the part before `part` that lie before the block are resident. */
static bool is_part_before_filled(uintptr_t part, uintptr_t block) {
  uintptr_t before = part - HK_PREFAULT_PART_BYTES, end = hk_align_up(block, hk_os_page_size());
  return end > before && hk_os_resident_bytes((void *)before, end - before) == end - before;
}

/* Chosen: looks with the same result that are counted. With each, more of the next parts go by that result without a
 * look. No more parts in a row are prefaulted so than were found filled before. */
#define SEEN_MOST 3

/* Returns whether the program fills the blocks of a mid class: by the part before, or by the last results. Each look is
 * a system call on the time of a request. */
static bool is_filling(hk_bin_state_t *state, uintptr_t part, uintptr_t block) {
  if (state->parts_to_skip > 0) {
    state->parts_to_skip--;
    return state->parts_filled > 0;
  }
  int seen = state->parts_filled;
  if (is_part_before_filled(part, block)) {
    seen = seen < 0 ? 1 : seen < SEEN_MOST ? seen + 1 : SEEN_MOST;
  } else {
    seen = seen > 0 ? -1 : seen > -SEEN_MOST ? seen - 1 : -SEEN_MOST;
  }
  state->parts_filled = (int8_t)seen;
  state->parts_to_skip = (uint8_t)(seen > 0 ? seen : (1 << (-seen - 1)) - 1);
  return seen > 0;
}

/* Returns the end of the last block that the slab of `address` has room for. */
static uintptr_t end_of_blocks(uintptr_t address, unsigned class_index) {
  return hk_align_down(address, HK_SLAB_BYTES) + hk_class_blocks_per_slab(class_index) * hk_class_bytes(class_index);
}

void hk_span_prefault(hk_heap_t *heap, unsigned class_index, uintptr_t first, uintptr_t last) {
  bool is_mid = hk_class_is_mid(class_index);
  if (is_mid && !may_go_ahead()) return;
  /* Carving writes to each tiny block, and so to each page. Mid blocks are prefaulted in whole parts. */
  size_t page_bytes = hk_os_page_size(), step = is_mid ? HK_PREFAULT_PART_BYTES : page_bytes;
  uintptr_t from = hk_align_up(first, step), to = hk_align_up(last + hk_class_bytes(class_index), step);
  uintptr_t most = hk_align_up(end_of_blocks(last, class_index), page_bytes);
  if (to > most) to = most;
  if (to < from + 2 * page_bytes) return;
  if (is_mid && (from % HK_SLAB_BYTES == 0 || !is_filling(&heap->state[class_index], from, first))) return;
  if (hk_timed_call_prefault((void *)from, to - from)) hk_stat_bump(&heap->stat, hk_stat_prefault, to - from);
}
