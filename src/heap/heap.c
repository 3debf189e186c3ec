/* heap/heap.c - L4. See heap.h. */
#include "heap/heap.h"

#include "os/lock.h"
#include "os/shard.h"
#include "space/meta.h"

alignas(hk_heap_t) const hk_empty_heap_t hk_empty_heap = {.bin = {[0 ... HK_CLASS_COUNT - 1] = {.free = HK_LIST_END}}};

/* Pushed to under hk_lock_heap_pool, read without: newest first. */
static _Atomic(hk_heap_t *) all;

/* Heaps of the kind hk_heap_own, and so threads that may use one at once. Guarded by hk_lock_heap_pool. */
static size_t threads;

hk_heap_t *hk_heap_first(void) { return hk_load_acquire(&all); }

/* Sets up the fields that do not begin with zero. */
static void init(hk_heap_t *heap) {
  hk_store_relaxed(&heap->effective_lists, heap->bin);
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    heap->bin[i].free = HK_LIST_END;
    if (!hk_class_is_mid(i)) continue;
    heap->bin[i].countdown = heap->state[i].room = (uint16_t)hk_class_room(i, HK_ROOM_FIRST_BYTES);
    heap->bin[i].pop_step = 1;
  }
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) hk_list_init(&heap->spare[i]);
  hk_sparse_init(&heap->sparse);
  hk_list_init(&heap->part.spans);
  hk_store_relaxed(&heap->shared.incoming, HK_LIST_END);
}

static void reset_class(hk_heap_t *heap, unsigned class_index) {
  hk_bin_state_t *state = &heap->state[class_index];
  heap->bin[class_index] = (hk_free_list_t){.free = HK_LIST_END};
  if (heap->countdowns != NULL) {
    heap->countdowns->shadow[class_index] = (hk_free_list_t){.free = HK_LIST_END};
    hk_store_relaxed(&heap->countdowns->of[class_index].is_open, hk_class_is_mid(class_index));
  }
  hk_store_release(&state->active, NULL);
  state->partial = (hk_list_t){NULL, NULL};
  state->carve_count = state->room = 0;
  state->guests = 0;
  state->spilled = 0;
}

void hk_heap_reset(hk_heap_t *heap) {
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) reset_class(heap, i);
  if (HK_HARDENED) hk_quarantine_forget(hk_heap_quarantine(heap));
  heap->sampling_state = 0; /* the heap follows the present state at its next slow path */
  hk_store_relaxed(&heap->span_slabs, 0);
  heap->spare_overflows = 0;
  heap->idle_bins = (hk_idle_bins_t){0};
  heap->damaged = NULL;
  heap->shortened_ms = 0;
  heap->is_short = false;
  hk_store_relaxed(&heap->shared.waiting, 0);
  init(heap);
}

hk_heap_t *hk_heap_create(hk_heap_kind_t kind) {
  hk_heap_t *heap = hk_meta_alloc(sizeof(hk_heap_t) + (HK_HARDENED ? sizeof(hk_quarantine_t) : 0));
  if (heap == NULL) return NULL;
  if (HK_HARDENED) hk_heap_quarantine(heap)->random = hk_fold_product((uintptr_t)heap ^ hk_keys.place, hk_keys.canary);
  init(heap);
  hk_store_relaxed(&heap->life, hk_heap_attached);

  hk_lock_acquire(hk_lock_heap_pool);
  heap->all_next = hk_load_relaxed(&all);
  uint32_t last = heap->all_next != NULL ? hk_load_relaxed(&heap->all_next->number) : 0;
  hk_store_relaxed(&heap->number, last + 1);
  hk_store_release(&all, heap); /* with hk_heap_first */
  if (kind == hk_heap_own && ++threads > 1) hk_shard_note_threads(threads);
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

HK_NOINLINE void hk_heap_note_given_slow(hk_heap_t *heap, unsigned class_index, uint32_t length) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (!hk_load_relaxed(&countdown->is_open) || countdown->start_length == HK_COUNTDOWN_UNKNOWN) return;
  uint32_t before = hk_heap_list_sum(countdown, &heap->bin[class_index]);
  if (before > length) hk_heap_count_given(countdown, before - length);
}
