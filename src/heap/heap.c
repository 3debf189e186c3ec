/* heap/heap.c - L4. See heap.h. */
#include "heap/heap.h"

#include "base/panic.h"
#include "os/lock.h"
#include "space/meta.h"

alignas(hk_heap_t) const hk_empty_heap_t hk_empty_heap = {.bin = {[0 ... HK_CLASS_COUNT - 1] = {.free = HK_LIST_END}}};

/* Guarded by hk_lock_heap_pool; a heap that a vanished thread had half taken out is found again through `all`. */
static _Atomic(hk_heap_t *) pool;
/* How many heaps the pool has. Written under the lock, read without. */
static _Atomic(uint32_t) idle_count;
/* Pushed to under the lock, read without: newest first. */
static _Atomic(hk_heap_t *) all;

hk_heap_t *hk_heap_first(void) { return hk_load_acquire(&all); }

static void set_life(hk_heap_t *heap, hk_heap_life_t life) { hk_store_relaxed(&heap->life, (uint8_t)life); }

static hk_heap_t *pop_locked(void) {
  hk_heap_t *heap = hk_load_relaxed(&pool);
  if (heap != NULL) {
    hk_store_relaxed(&pool, heap->pool_next);
    hk_bump_relaxed(&idle_count, (uint32_t)-1);
    set_life(heap, hk_heap_attached);
  }
  return heap;
}

static void push_locked(hk_heap_t *heap) {
  heap->pool_next = hk_load_relaxed(&pool);
  hk_bump_relaxed(&idle_count, 1);
  set_life(heap, hk_heap_idle);
  hk_keep_store_order();
  hk_store_relaxed(&pool, heap);
}

static hk_heap_t *create(void) {
  hk_heap_t *heap = hk_meta_alloc(sizeof(hk_heap_t));
  if (heap == NULL) return NULL;
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    heap->bin[i].free = HK_LIST_END;
    if (hk_class_is_mid(i))
      heap->bin[i].countdown = heap->state[i].room = (uint16_t)hk_class_room(i, HK_ROOM_FIRST_BYTES);
  }
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) hk_list_init(&heap->spare[i]);
  hk_store_relaxed(&heap->shared.incoming, HK_LIST_END);
  set_life(heap, hk_heap_attached);

  hk_lock_acquire(hk_lock_heap_pool);
  heap->all_next = hk_load_relaxed(&all);
  hk_store_release(&all, heap); /* with hk_heap_first */
  hk_lock_release(hk_lock_heap_pool);
  return heap;
}

hk_heap_t *hk_heap_take(void) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_heap_t *heap = pop_locked();
  hk_lock_release(hk_lock_heap_pool);
  return heap != NULL ? heap : create();
}

/* How many idle heaps are looked at: this is asked before each growth. */
#define PENDING_LOOK_COUNT 16

static hk_heap_t *unlink_pending_locked(void) {
  hk_heap_t *before = NULL;
  hk_heap_t *heap = hk_load_relaxed(&pool);
  for (unsigned i = 0; i < PENDING_LOOK_COUNT && heap != NULL; i++, before = heap, heap = heap->pool_next) {
    if (hk_load_relaxed(&heap->shared.incoming) == HK_LIST_END) continue;
    set_life(heap, hk_heap_attached);
    hk_bump_relaxed(&idle_count, (uint32_t)-1);
    if (before == NULL) {
      hk_store_relaxed(&pool, heap->pool_next);
    } else {
      before->pool_next = heap->pool_next;
    }
    return heap;
  }
  return NULL;
}

hk_heap_t *hk_heap_take_pending(void) {
  if (hk_load_relaxed(&pool) == NULL) return NULL;
  hk_lock_acquire(hk_lock_heap_pool);
  hk_heap_t *heap = unlink_pending_locked();
  hk_lock_release(hk_lock_heap_pool);
  return heap;
}

bool hk_heap_pool_is_deep(void) { return hk_load_relaxed(&idle_count) >= HK_POOL_WARM; }

void hk_heap_give_back(hk_heap_t *heap) {
  HK_ASSERT(!hk_load_relaxed(&heap->busy), "a heap is at rest when it changes hands");
  hk_lock_acquire(hk_lock_heap_pool);
  push_locked(heap);
  hk_lock_release(hk_lock_heap_pool);
}

static hk_heap_life_t life_of(const hk_heap_t *heap) {
  return (hk_heap_life_t)hk_load_relaxed(&((hk_heap_t *)heap)->life);
}

void hk_heap_repair(void) {
  hk_store_relaxed(&pool, NULL);
  hk_store_relaxed(&idle_count, 0);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (life_of(heap) == hk_heap_attached) set_life(heap, hk_heap_orphan);
    if (life_of(heap) == hk_heap_idle) push_locked(heap);
  }
}

/* The owner may have vanished between putting a block back and counting it: no list is known to be fresh any more, and
 * the next free into a mid bin counts its list again. */
static void distrust_countdowns(hk_heap_t *heap) {
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    if (hk_class_is_mid(i)) {
      heap->bin[i].countdown = 1;
      heap->bin[i].mark = 0;
    } else if (hk_bin_is_fresh(&heap->bin[i])) {
      heap->bin[i].countdown = HK_COUNTDOWN_ACTIVE;
    }
  }
}

static void settle_orphan(hk_heap_t *heap, const hk_heap_t *mine) {
  if (heap == mine) {
    set_life(heap, hk_heap_attached);
  } else if (hk_load_relaxed(&heap->busy)) {
    set_life(heap, hk_heap_lost);
  } else {
    distrust_countdowns(heap);
    hk_heap_give_back(heap);
  }
}

void hk_heap_adopt_orphans(const hk_heap_t *mine) {
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (life_of(heap) == hk_heap_orphan) settle_orphan(heap, mine);
  }
}

size_t hk_heap_lost_count(void) {
  size_t count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    count += hk_load_relaxed(&heap->life) == hk_heap_lost;
  }
  return count;
}

void hk_heap_visit_idle(void (*visit)(hk_heap_t *heap)) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_heap_t *taken = hk_load_relaxed(&pool);
  hk_store_relaxed(&pool, NULL);
  hk_store_relaxed(&idle_count, 0);
  for (hk_heap_t *heap = taken; heap != NULL; heap = heap->pool_next) set_life(heap, hk_heap_attached);
  hk_lock_release(hk_lock_heap_pool);

  while (taken != NULL) {
    hk_heap_t *heap = taken;
    taken = heap->pool_next;
    visit(heap);
    hk_heap_give_back(heap);
  }
}
