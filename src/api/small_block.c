/* api/small_block.c - L5. See small_block.h. */
#include "api/small_block.h"

#include "api/misuse.h"
#include "heap/handover.h"
#include "heap/mid.h"
#include "heap/refill.h"

void hk_small_drop_damaged(hk_heap_t *heap, hk_free_list_t *free_list, unsigned class_index) {
  if (free_list->free == HK_LIST_END) return;
  hk_misuse_damage(free_list->free);
  free_list->free = HK_LIST_END;
  if (hk_class_is_mid(class_index)) {
    hk_mid_note_loss(heap, class_index);
  } else if (free_list == hk_heap_effective_list(heap, class_index)) {
    hk_heap_note_length(heap, class_index, 0);
  }
}

/* Hands out a block of a hardened build that was in no list. Returns NULL when it is damaged: it is lost. */
static hk_block_t *give_untouched(hk_block_t *block) {
  hk_handover_t handover = hk_handover_of(block);
  if (!hk_handover_may_link(block) || !hk_handover_is_ready(block, handover)) {
    hk_misuse_damage(block);
    return NULL;
  }
  hk_handover_give(block, handover);
  return block;
}

void *hk_small_take(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  hk_free_list_t *lists = list - class_index; /* of all classes: the heap's bins, or its shadow lists */
  /* The last refill of an adopted heap's list is unknown. */
  if (hk_class_is_mid(class_index)) heap->state[class_index].carved_zero = false;
  for (;;) {
    hk_block_t *block = hk_small_pop(lists, class_index);
    if (block != NULL) return block;
    hk_small_drop_damaged(heap, list, class_index);
    hk_block_t *untouched = NULL;
    bool has_refilled = hk_refill(heap, class_index, &untouched);
    hk_misuse_report_damaged(heap);
    if (HK_HARDENED && untouched != NULL && (untouched = give_untouched(untouched)) == NULL) continue;
    if (!has_refilled || untouched != NULL) return untouched;
  }
}
