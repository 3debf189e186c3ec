/* heap/pool.c - L4. See pool.h; docs/concurrency.md has the argument for each order. */
#include "heap/pool.h"

#include "base/atomic.h"
#include "base/count.h"
#include "base/panic.h"
#include "base/walk.h"
#include "heap/heap_check.h"
#include "heap/span.h"
#include "os/lock.h"
#include "os/node.h"
#include "os/shard.h"

/* NULL: free. HK_POOL_SLOTS for each shard; of each shard's slots, the last are filled last and emptied first. */
static alignas(HK_CACHE_LINE_BYTES) _Atomic(hk_heap_t *) slots[HK_SHARD_MAX * HK_POOL_SLOTS];

/* Guarded by hk_lock_heap_pool. The heap that came last is first. */
static hk_list_t overflow;
/* The length of the list. Written under the lock, read without. */
static _Atomic(size_t) overflow_count;

/* Marks a heap as attached. For a heap that the caller has just taken out of its place. */
static void set_taken(hk_heap_t *heap) {
  hk_heap_set_life(heap, hk_heap_attached);
  hk_store_relaxed(&heap->is_flushed, false);
}

/* ---- Parts of named heaps and tags are in no place: their `life` alone says that they are idle. */

static bool take_part(hk_heap_t *part) {
  uint8_t expected = hk_heap_idle;
  if (hk_heap_life(part) != hk_heap_idle) return false;
  hk_count(hk_count_shared_update, 1);
  if (!hk_compare_exchange_acquire(&part->life, &expected, (uint8_t)hk_heap_attached)) return false; /* with put_part */
  hk_store_relaxed(&part->is_flushed, false);
  return true;
}

static void put_part(hk_heap_t *part) { hk_store_release(&part->life, (uint8_t)hk_heap_idle); }

/* ---- Slots. A child of fork finds a heap that was between a slot and its taker by its `life`. If a signal handler of
 * the taker forked, the taker goes on in the child: then the repair waits until `life` is set. */

static unsigned slot_count(void) { return hk_load_relaxed(&hk_shard_count) * HK_POOL_SLOTS; }

/* Returns slot `k` of all `count` in the order that begins with the first slot of `shard` and goes round. */
static unsigned slot_from(unsigned shard, unsigned k, unsigned count) {
  unsigned i = shard * HK_POOL_SLOTS + k;
  return i < count ? i : i - count;
}

HK_INLINE void count_update(void) {
  hk_count(hk_count_shared_update, 1);
  hk_count(hk_count_slot_update, 1);
}

HK_NOINLINE static hk_heap_t *empty_full_slot(unsigned i) {
  count_update();
  hk_lock_defer_repair();
  hk_heap_t *heap = hk_exchange_acquire(&slots[i], NULL); /* with fill_slot */
  HK_ASSERT(heap == NULL || hk_heap_life(heap) == hk_heap_idle, "a heap in a slot is idle");
  if (heap != NULL) set_taken(heap);
  hk_lock_allow_repair();
  return heap;
}

HK_INLINE hk_heap_t *empty_slot(unsigned i) { return hk_load_relaxed(&slots[i]) != NULL ? empty_full_slot(i) : NULL; }

HK_NOINLINE static bool empty_full_slot_of(unsigned i, hk_heap_t *heap) {
  count_update();
  hk_lock_defer_repair();
  hk_heap_t *expected = heap;
  bool emptied = hk_compare_exchange_acquire(&slots[i], &expected, NULL); /* with fill_slot */
  HK_ASSERT(!emptied || hk_heap_life(heap) == hk_heap_idle, "a heap in a slot is idle");
  if (emptied) set_taken(heap);
  hk_lock_allow_repair();
  return emptied;
}

HK_INLINE bool empty_slot_of(unsigned i, hk_heap_t *heap) {
  return hk_load_relaxed(&slots[i]) == heap && empty_full_slot_of(i, heap);
}

static bool fill_slot(unsigned i, hk_heap_t *heap) {
  if (hk_load_relaxed(&slots[i]) != NULL) return false;
  count_update();
  hk_heap_t *expected = NULL;
  return hk_compare_exchange_weak_release(&slots[i], &expected, heap);
}

/* ---- Beyond the slots. */

static void init_overflow_locked(void) {
  hk_list_init(&overflow);
  hk_store_relaxed(&overflow_count, 0);
}

/* Walks the list when that is due, after each change of it. No heap leaves it while the lock is held. */
#if HK_DEBUG
static hk_walk_t walk;

static size_t check_overflow_locked(void) {
  size_t count = 0;
  for (const hk_list_t *node = overflow.next; node != &overflow; node = node->next) {
    hk_heap_t *heap = HK_CONTAINER_OF(node, hk_heap_t, pool_link);
    HK_REQUIRE(node->next->previous == node, "the list of idle heaps is whole");
    HK_REQUIRE(hk_heap_life(heap) == hk_heap_idle, "a heap beyond the slots is idle");
    count++;
  }
  HK_REQUIRE(count == hk_load_relaxed(&overflow_count), "the count of heaps beyond the slots is how many there are");
  return count;
}

static size_t check_numbers_locked(void) {
  size_t count = 0, total = hk_heap_total();
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next, count++) {
    HK_REQUIRE(hk_load_relaxed(&heap->number) == total - count, "heaps are numbered without a gap");
  }
  return count;
}

static void check_locked(void) {
  if (!hk_walk_is_due(&walk)) return;
  for (unsigned i = 0, count = slot_count(); i < count; i++) {
    const hk_heap_t *heap = hk_load_acquire(&slots[i]);
    HK_REQUIRE(heap == NULL || !hk_list_is_linked(&heap->pool_link), "a heap is in a slot or beyond the slots");
  }
  hk_walk_end(&walk, check_overflow_locked() + check_numbers_locked());
}
#else
static void check_locked(void) {}
#endif

static void take_out_locked(hk_heap_t *heap) {
  hk_list_remove(&heap->pool_link);
  hk_bump_relaxed(&overflow_count, (size_t)-1);
  set_taken(heap);
  check_locked();
}

typedef void (*push_t)(hk_list_t *list, hk_list_t *node);

static void push_locked(hk_heap_t *heap, push_t push) {
  if (!hk_list_is_linked(&overflow)) init_overflow_locked();
  push(&overflow, &heap->pool_link);
  hk_bump_relaxed(&overflow_count, 1);
  check_locked();
}

/* Takes `wanted`, or the first heap when it is NULL. Returns NULL when there is none. */
static hk_heap_t *take_from_overflow(hk_heap_t *wanted) {
  if (hk_load_relaxed(&overflow_count) == 0) return NULL;
  hk_lock_acquire(hk_lock_heap_pool);
  hk_heap_t *heap = NULL;
  if (wanted != NULL) {
    if (hk_list_is_linked(&wanted->pool_link)) heap = wanted;
  } else if (hk_load_relaxed(&overflow_count) > 0) {
    heap = HK_CONTAINER_OF(overflow.next, hk_heap_t, pool_link);
  }
  if (heap != NULL) take_out_locked(heap);
  hk_lock_release(hk_lock_heap_pool);
  return heap;
}

/* ---- Takes a heap from the slots or from beyond them. */

/* Chosen: where there are several heaps, a thread looks for an idle one before each growth: in the first LOOK_COUNT
 * slots of its own shard, and in the first HK_POOL_WARM of at most LOOK_SHARDS other shards of its node. So memory that
 * a thread left on another processor serves, and the look stays short on large machines. */
#define LOOK_COUNT 16
#define LOOK_SHARDS 7

static hk_heap_t *take_if_among(unsigned shard, unsigned looks, bool (*is_wanted)(hk_heap_t *heap, unsigned argument),
                                unsigned argument) {
  unsigned count = slot_count();
  hk_lock_wait_for_repair();
  for (unsigned k = 0; k < looks; k++) {
    unsigned i = slot_from(shard, k, count);
    hk_heap_t *heap = hk_load_acquire(&slots[i]); /* with fill_slot: a heap's record is set up before it is idle */
    if (heap != NULL && is_wanted(heap, argument) && empty_slot_of(i, heap)) return heap;
  }
  return NULL;
}

hk_heap_t *hk_heap_take_if(bool (*is_wanted)(hk_heap_t *heap, unsigned argument), unsigned argument) {
  unsigned own = hk_shard_current();
  hk_heap_t *heap = take_if_among(own, LOOK_COUNT, is_wanted, argument);
  unsigned shard = hk_shard_next_of_node(own);
  for (unsigned i = 0; heap == NULL && i < LOOK_SHARDS && shard != own; i++, shard = hk_shard_next_of_node(shard)) {
    heap = take_if_among(shard, HK_POOL_WARM, is_wanted, argument);
  }
  return heap;
}

static bool has_blocks_to_drain(hk_heap_t *heap, unsigned unused) {
  (void)unused;
  return hk_heap_has_incoming(heap);
}

static hk_heap_t *take_with_incoming_from_overflow(void) {
  if (hk_load_relaxed(&overflow_count) == 0) return NULL;
  hk_lock_acquire(hk_lock_heap_pool);
  hk_heap_t *found = NULL;
  for (hk_list_t *node = overflow.next; node != &overflow && found == NULL; node = node->next) {
    hk_heap_t *heap = HK_CONTAINER_OF(node, hk_heap_t, pool_link);
    if (hk_heap_has_incoming(heap)) found = heap;
  }
  if (found != NULL) take_out_locked(found);
  hk_lock_release(hk_lock_heap_pool);
  return found;
}

hk_heap_t *hk_heap_take_with_incoming(void) {
  hk_heap_t *heap = take_if_among(hk_shard_current(), slot_count(), has_blocks_to_drain, 0);
  return heap != NULL ? heap : take_with_incoming_from_overflow();
}

static bool is_of_node(hk_heap_t *heap, unsigned node) { return hk_shard_node(hk_load_relaxed(&heap->shard)) == node; }

/* Takes from the slots of the shard first, and last from those of the shard behind it. */
static hk_heap_t *take_from_slots(unsigned own) {
  unsigned next = own + 1, count = slot_count();
  hk_heap_t *heap = NULL;
  for (unsigned k = count; heap == NULL && k-- > 0;) heap = empty_slot(slot_from(next, k, count));
  return heap;
}

static hk_heap_t *take_idle(unsigned shard) {
  hk_lock_wait_for_repair();
  hk_heap_t *heap = hk_node_is_only_one() ? NULL : hk_heap_take_if(is_of_node, hk_shard_node(shard));
  if (heap == NULL) heap = take_from_overflow(NULL);
  return heap != NULL ? heap : take_from_slots(shard);
}

hk_heap_t *hk_heap_take(void) {
  unsigned shard = hk_shard_current();
  hk_heap_t *heap = take_idle(shard);
  if (heap == NULL) {
    heap = hk_heap_create(hk_heap_own);
    if (heap == NULL) return NULL;
  } else if (!is_of_node(heap, hk_shard_node(shard))) {
    hk_stat_bump(&heap->stat, hk_stat_numa_adopt, 1);
  }
  hk_store_relaxed(&heap->shard, (uint8_t)shard);
  return heap;
}

bool hk_heap_take_this(hk_heap_t *heap) {
  hk_lock_wait_for_repair();
  if (HK_UNLIKELY(hk_heap_is_part(heap))) return take_part(heap);
  unsigned shard = hk_load_relaxed(&heap->shard); /* where it is, unless that is an old value */
  unsigned count = slot_count();
  for (unsigned k = 0; k < count; k++) {
    if (empty_slot_of(slot_from(shard, k, count), heap)) return true;
  }
  return take_from_overflow(heap) != NULL;
}

void hk_heap_keep_slow(hk_heap_t *heap) {
  if (!hk_heap_take_this(heap)) hk_heap_set_life(heap, hk_heap_attached);
}

/* ---- The offer of an idle heap. */

static bool has_to_give(const hk_heap_t *heap, unsigned class_index) {
  return hk_span_first_partial(heap, class_index) != NULL || hk_span_active_has_room(heap, class_index);
}

static void make_offer(hk_heap_t *heap) {
  hk_class_set_t offer = {{0}};
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    if (has_to_give(heap, i)) hk_class_set_add(&offer, i);
  }
  for (unsigned i = 0; i < HK_CLASS_SET_WORDS; i++) hk_store_relaxed(&heap->offer[i], offer.words[i]);
}

bool hk_heap_offers(hk_heap_t *heap, unsigned class_index) {
  return (hk_load_relaxed(&heap->offer[class_index / 64]) & hk_class_set_bit(class_index)) != 0;
}

/* ---- Gives a heap back. */

static bool is_idle(hk_heap_t *heap) { return hk_heap_life(heap) == hk_heap_idle; }

static bool fill_any_slot(hk_heap_t *heap, unsigned count) {
  unsigned first = hk_load_relaxed(&heap->shard) * HK_POOL_SLOTS;
  hk_heap_set_life(heap, hk_heap_idle);
  hk_keep_store_order();
  for (unsigned i = first; i < first + count; i++) {
    if (fill_slot(i, heap)) return true;
  }
  hk_heap_set_life(heap, hk_heap_attached);
  return false;
}

/* Puts the heap in a slot of its shard. A heap that is idle already is in the pool: a signal handler forked after the
 * heap came to rest, and this is the child, which took it for an orphan. */
static bool put_in_slot(hk_heap_t *heap, unsigned count) {
  hk_lock_defer_repair();
  bool is_done = is_idle(heap) || fill_any_slot(heap, count);
  hk_lock_allow_repair();
  return is_done;
}

static void put(hk_heap_t *heap, push_t push) {
  if (HK_UNLIKELY(hk_heap_is_part(heap))) {
    put_part(heap);
    return;
  }
  if (put_in_slot(heap, HK_POOL_SLOTS)) return;
  hk_lock_acquire(hk_lock_heap_pool);
  if (!is_idle(heap)) {
    hk_heap_set_life(heap, hk_heap_idle);
    hk_keep_store_order();
    push_locked(heap, push);
  }
  hk_lock_release(hk_lock_heap_pool);
}

/* hk_heap_has_incoming for a heap that is in the pool again. A thread that posts blocks reads `life` afterwards. Either
 * its post comes first and is seen here, or that thread sees that the heap is idle. */
static bool has_incoming_in_turn(hk_heap_t *heap) { return hk_load_in_turn(&heap->shared.incoming) != HK_LIST_END; }

static void prepare(hk_heap_t *heap) {
  HK_ASSERT(!hk_load_relaxed(&heap->is_busy), "a heap is at rest when it changes hands");
  hk_heap_check_at_rest(heap);
  hk_lock_wait_for_repair();
  make_offer(heap);
}

static bool give_back(hk_heap_t *heap, push_t push) {
  prepare(heap);
  put(heap, push);
  return has_incoming_in_turn(heap);
}

bool hk_heap_give_back(hk_heap_t *heap) { return give_back(heap, hk_list_push_front); }

bool hk_heap_give_back_warm(hk_heap_t *heap, bool *has_incoming) {
  if (hk_heap_is_part(heap) || hk_heap_pool_has_warm()) return false;
  prepare(heap);
  if (!put_in_slot(heap, HK_POOL_WARM)) return false;
  *has_incoming = has_incoming_in_turn(heap);
  return true;
}

/* ---- Looks at the idle heaps. */

bool hk_heap_pool_has_warm(void) {
  static_assert(HK_POOL_WARM <= HK_POOL_SLOTS, "the warm ones are in slots");
  unsigned first = hk_shard_current() * HK_POOL_SLOTS;
  for (unsigned i = 0; i < HK_POOL_WARM; i++) {
    if (hk_load_relaxed(&slots[first + i]) == NULL) return false;
  }
  return true;
}

bool hk_heap_pool_has_any(void) {
  if (hk_load_relaxed(&overflow_count) > 0) return true;
  for (unsigned i = 0, count = slot_count(); i < count; i++) {
    if (hk_load_relaxed(&slots[i]) != NULL) return true;
  }
  return false;
}

bool hk_heap_pool_has_unflushed(void) {
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (is_idle(heap) && !hk_load_relaxed(&heap->is_flushed)) return true;
  }
  return false;
}

static void visit_one(hk_heap_t *heap, void (*visit)(hk_heap_t *heap), push_t push) {
  do visit(heap);
  while (give_back(heap, push) && hk_heap_take_this(heap));
}

void hk_heap_visit_idle(void (*visit)(hk_heap_t *heap)) {
  hk_lock_wait_for_repair();
  for (unsigned i = 0, count = slot_count(); i < count; i++) {
    hk_heap_t *heap = empty_slot(i);
    /* visit_one puts it in this slot or an earlier one of the same shard, which is not visited again. */
    if (heap != NULL) visit_one(heap, visit, hk_list_push_front);
  }
  for (size_t left = hk_load_relaxed(&overflow_count); left > 0; left--) {
    hk_heap_t *heap = take_from_overflow(NULL);
    if (heap == NULL) break;
    visit_one(heap, visit, hk_list_push_back); /* behind those not visited yet */
  }
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (HK_UNLIKELY(hk_heap_is_part(heap)) && take_part(heap)) visit_one(heap, visit, hk_list_push_back);
  }
}

/* ---- Fork. */

void hk_heap_repair(void) {
  hk_heap_check_note_fork();
  for (unsigned i = 0, count = slot_count(); i < count; i++) hk_store_relaxed(&slots[i], NULL);
  init_overflow_locked();
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    heap->pool_link = (hk_list_t){NULL, NULL};
    hk_store_relaxed(&heap->shared.is_claimed, false); /* the purge thread has vanished */
    if (hk_heap_life(heap) == hk_heap_attached) hk_heap_set_life(heap, hk_heap_orphan);
    if (!is_idle(heap)) continue;
    hk_heap_set_life(heap, hk_heap_attached); /* it is in no place now */
    put(heap, hk_list_push_front);
  }
}
