/* heap/run_cache.c - L4. See run_cache.h. */
#include "heap/run_cache.h"

#include "policy/option.h"
#include "space/run.h"

static hk_list_t *list_of(hk_heap_t *heap, unsigned slab_count) { return &heap->run_cache[slab_count - 1]; }

static hk_slab_t *pop(hk_heap_t *heap, hk_list_t *list) {
  hk_slab_t *head = HK_CONTAINER_OF(list->next, hk_slab_t, link);
  hk_list_remove(&head->link);
  heap->run_cache_slabs -= head->slab_count;
  return head;
}

void *hk_run_cache_take(hk_heap_t *heap, size_t bytes) {
  hk_list_t *list = list_of(heap, hk_run_slabs(bytes));
  if (hk_list_is_empty(list)) return NULL;
  hk_stat_bump(&heap->stat, hk_stat_run_alloc, 1);
  hk_stat_bump(&heap->stat, hk_stat_run_reuse, 1);
  return hk_run_reopen(pop(heap, list));
}

void hk_run_cache_flush(hk_heap_t *heap) {
  for (unsigned i = 1; i <= HK_RUN_MAX_SLABS; i++) {
    while (!hk_list_is_empty(list_of(heap, i))) hk_run_release(pop(heap, list_of(heap, i)));
  }
}

bool hk_run_cache_put(hk_heap_t *heap, hk_slab_t *head) {
  if (!hk_run_close(head)) return false;
  hk_stat_bump(&heap->stat, hk_stat_run_free, 1);
  size_t room = hk_option.retain / HK_SLAB_BYTES;
  if (room > HK_RUN_CACHE_SLABS) room = HK_RUN_CACHE_SLABS;
  if (heap->run_cache_slabs + head->slab_count > room) hk_run_cache_flush(heap);
  if (head->slab_count > room) {
    hk_run_release(head);
    return true;
  }
  hk_list_push_front(list_of(heap, head->slab_count), &head->link);
  heap->run_cache_slabs += head->slab_count;
  return true;
}
