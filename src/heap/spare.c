/* heap/spare.c - L4. See spare.h. */
#include "heap/spare.h"

#include "policy/option.h"
#include "space/superslab.h"

static hk_list_t *list_of(hk_heap_t *heap, unsigned slab_count) { return &heap->spare[slab_count - 1]; }

static size_t room(void) {
  size_t retained = hk_option.retain / HK_SLAB_BYTES;
  return hk_option.spare_slabs < retained ? hk_option.spare_slabs : retained;
}

hk_slab_t *hk_spare_take(hk_heap_t *heap, unsigned slab_count) {
  hk_list_t *list = list_of(heap, slab_count);
  if (hk_list_is_empty(list)) return NULL;
  hk_slab_t *head = HK_CONTAINER_OF(list->next, hk_slab_t, link);
  hk_list_remove(&head->link);
  heap->spare_slabs -= slab_count;
  head->zero = false;
  return head;
}

void hk_spare_flush(hk_heap_t *heap) {
  for (unsigned i = 1; i <= HK_RUN_MAX_SLABS && heap->spare_slabs > 0; i++) {
    for (hk_slab_t *head; (head = hk_spare_take(heap, i)) != NULL;) hk_superslab_release(head, i);
  }
}

void hk_spare_put(hk_heap_t *heap, hk_slab_t *head) {
  unsigned slab_count = head->slab_count;
  if (heap->spare_slabs + slab_count > room()) hk_spare_flush(heap);
  if (slab_count > room()) {
    hk_superslab_release(head, slab_count);
    return;
  }
  hk_list_push_front(list_of(heap, slab_count), &head->link);
  heap->spare_slabs += slab_count;
}
