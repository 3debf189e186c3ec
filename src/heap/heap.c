/* heap/heap.c - L4. See heap.h. */
#include "heap/heap.h"

#include "os/lock.h"
#include "space/meta.h"

alignas(hk_heap_t) const hk_empty_heap_t hk_empty_heap = {.bin = {[0 ... HK_CLASS_COUNT - 1] = {.free = HK_LIST_END}}};

/* Pushed to under hk_lock_heap_pool, read without: newest first. */
static _Atomic(hk_heap_t *) all;

hk_heap_t *hk_heap_first(void) { return hk_load_acquire(&all); }

hk_heap_t *hk_heap_create(void) {
  hk_heap_t *heap = hk_meta_alloc(sizeof(hk_heap_t));
  if (heap == NULL) return NULL;
  hk_store_relaxed(&heap->effective_lists, heap->bin);
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    heap->bin[i].free = HK_LIST_END;
    if (hk_class_is_mid(i))
      heap->bin[i].countdown = heap->state[i].room = (uint16_t)hk_class_room(i, HK_ROOM_FIRST_BYTES);
  }
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) hk_list_init(&heap->spare[i]);
  hk_store_relaxed(&heap->shared.incoming, HK_LIST_END);
  hk_store_relaxed(&heap->life, hk_heap_attached);

  hk_lock_acquire(hk_lock_heap_pool);
  heap->all_next = hk_load_relaxed(&all);
  uint32_t last = heap->all_next != NULL ? hk_load_relaxed(&heap->all_next->number) : 0;
  hk_store_relaxed(&heap->number, last + 1);
  hk_store_release(&all, heap); /* with hk_heap_first */
  hk_lock_release(hk_lock_heap_pool);
  return heap;
}

size_t hk_heap_total(void) {
  hk_heap_t *newest = hk_heap_first();
  return newest != NULL ? hk_load_relaxed(&newest->number) : 0;
}

size_t hk_heap_count(hk_heap_life_t life) {
  size_t count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    count += hk_heap_life(heap) == life;
  }
  return count;
}
