/* os/lock.c - L1. Futex locks in one page that the kernel wipes in the child of fork.
 *
 * A lock's word goes 0 -> 1 -> 0 while no thread waits. A thread that must sleep first sets the word to 2. The release
 * that finds 2 wakes one sleeper (U. Drepper, "Futexes Are Tricky", 2011, the third mutex).
 *
 * The page also holds the epoch, which is epoch_wiped in a new child and nowhere else. A thread reads it after it has
 * taken a lock, not before: a signal handler may fork between the two.
 */
#include "os/lock.h"

#include <assert.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/count.h"
#include "base/panic.h"
#include "base/units.h"
#include "os/os.h"

enum { word_free, word_held, word_contended };
enum { epoch_wiped, epoch_ready, epoch_repairing };

/* Reads of a held lock's word before its taker sleeps, also where others sleep: longer than the usual critical section,
 * and less time than a sleep takes. The model checker, which runs every order, sets a smaller count. */
#ifndef HK_SPIN_COUNT
#define HK_SPIN_COUNT 100
#endif

/* Each lock has a cache line of its own. Any thread writes `word` and `sleeps`; the holder of the lock writes `takes`
 * and `waits`. */
typedef struct {
  _Alignas(HK_CACHE_LINE_BYTES) _Atomic(uint32_t) word;
  _Atomic(uint64_t) sleeps;
  _Atomic(uint64_t) takes;
  _Atomic(uint64_t) waits;
} lock_line_t;

typedef struct {
  lock_line_t lock[hk_lock_count];
  _Alignas(HK_CACHE_LINE_BYTES) _Atomic(uint32_t) epoch;
  _Atomic(uint32_t) generation; /* 0: not yet read since the fork */
} lock_page_t;

static_assert(sizeof(lock_page_t) <= 4 * HK_KIB, "all locks are in one page of the smallest size");

/* The locks before hk_lock_init, and for good where the kernel cannot wipe a page on fork. */
static lock_page_t unwiped_page = {.epoch = epoch_ready};

/* Written by hk_lock_init while one thread exists. */
static lock_page_t *page = &unwiped_page;
static void (*repair)(void);

/* The highest generation of this process and of all its ancestors. */
static _Atomic(uint32_t) last_generation;

static HK_THREAD_LOCAL bool is_repairing;

/* Bit i: this thread holds a lock of rank i. The thread's signal handlers read it. */
static HK_THREAD_LOCAL _Atomic(uint32_t) held_mask;
/* Bit i: this thread holds the lock of shard i. These locks have one rank. */
static HK_THREAD_LOCAL _Atomic(uint32_t) held_shards;
/* Set in a child alone: its repair waits until this thread holds nothing. */
static HK_THREAD_LOCAL _Atomic(bool) is_repair_deferred;

/* Bits of the mask behind the ranks: for steps that no lock guards, and for the repair, which takes such steps too. */
#define STEPS_BIT (1u << 30)
#define REPAIR_BIT (STEPS_BIT << 1)
static_assert(hk_lock_count - HK_LOCK_SHARDS < 30, "one bit a rank, and two more");

static bool is_of_shard(hk_lock_id_t id) { return id >= hk_lock_shard && id < hk_lock_space; }

static unsigned rank_of(hk_lock_id_t id) {
  if (is_of_shard(id)) return hk_lock_shard;
  return id < hk_lock_shard ? id : id - HK_LOCK_SHARDS + 1;
}
static uint32_t bit_of(hk_lock_id_t id) { return 1u << rank_of(id); }

static uint32_t shard_bit_of(hk_lock_id_t id) { return is_of_shard(id) ? UINT32_C(1) << (id - hk_lock_shard) : 0; }
static_assert(HK_LOCK_SHARDS <= 32, "one bit a shard");

/* Checks the order of ranks before the lock is taken: a violation may also deadlock. */
static void check_rank(hk_lock_id_t id) {
  uint32_t above = (hk_load_relaxed(&held_mask) & (STEPS_BIT - 1)) >> rank_of(id);
  bool is_next_shard = is_of_shard(id) && above == 1 && hk_load_relaxed(&held_shards) < shard_bit_of(id);
  HK_ASSERT(above == 0 || is_next_shard, "a lock is taken while one of the same or a higher rank is held");
  (void)above, (void)is_next_shard;
}

static void check_held(hk_lock_id_t id) {
  HK_ASSERT((hk_load_relaxed(&held_mask) & bit_of(id)) != 0 &&
                (hk_load_relaxed(&held_shards) & shard_bit_of(id)) == shard_bit_of(id),
            "a lock is released by a thread that does not hold it");
  (void)id;
}

static void note_hold(uint32_t bit) {
  hk_store_relaxed(&held_mask, hk_load_relaxed(&held_mask) | bit);
  hk_keep_order();
}

static void note_release(uint32_t bit) {
  hk_keep_order();
  hk_store_relaxed(&held_mask, hk_load_relaxed(&held_mask) & ~bit);
  hk_keep_order(); /* the child of a handler that forks from here on finds nothing held, and repairs */
}

static const uint32_t *futex_of(_Atomic(uint32_t) *word) { return (const uint32_t *)word; }

static void relax_cpu(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* most cores treat `yield` as no operation */
#endif
}

static bool try_take(_Atomic(uint32_t) *word) {
  uint32_t expected = word_free;
  return hk_compare_exchange_acquire(word, &expected, word_held);
}

static HK_COLD void wait_for(lock_line_t *line) {
  for (unsigned i = 0; i < HK_SPIN_COUNT; i++) {
    uint32_t seen = hk_load_relaxed(&line->word);
    if (seen == word_free && try_take(&line->word)) return;
    relax_cpu();
  }
  while (hk_exchange_acquire(&line->word, word_contended) != word_free) {
    (void)hk_add_relaxed(&line->sleeps, 1);
    hk_os_wait(futex_of(&line->word), word_contended);
  }
}

static HK_COLD void take_slow(lock_line_t *line) {
  wait_for(line);
  hk_bump_relaxed(&line->waits, 1);
}

static void take(lock_line_t *line) {
  hk_count_run_hook();
  if (HK_UNLIKELY(!try_take(&line->word))) take_slow(line);
  hk_bump_relaxed(&line->takes, 1);
}

/* Releases the word. In a child of fork the word may be free already: the kernel wiped it when a signal handler's fork
 * interrupted the holder. */
static void give(lock_line_t *line) {
  if (HK_UNLIKELY(hk_exchange_release(&line->word, word_free) == word_contended)) hk_os_wake_one(futex_of(&line->word));
}

/* Runs the repair. A signal handler of this thread may fork meanwhile; in that child the repair goes on here and then
 * runs once more for the child. What the thread held when a handler forked is free here. */
static void run_repair(uint32_t held_in_parent) {
  is_repairing = true;
  do {
    hk_store_relaxed(&held_mask, REPAIR_BIT);
    hk_store_relaxed(&is_repair_deferred, false);
    hk_keep_order();
    if (repair != NULL) repair();
    hk_keep_order();
    hk_store_relaxed(&held_mask, held_in_parent);
    hk_keep_order();
  } while (hk_load_relaxed(&is_repair_deferred));
  is_repairing = false;
}

/* Repairs, or waits for the thread that does. Each thread that sees the end wakes one more waiting thread. */
static HK_COLD void join_repair(void) {
  uint32_t held_in_parent = hk_load_relaxed(&held_mask), shards_in_parent = hk_load_relaxed(&held_shards);
  hk_store_relaxed(&held_shards, 0);
  hk_store_relaxed(&held_mask, REPAIR_BIT);
  hk_keep_order();
  uint32_t found = epoch_wiped;
  if (hk_compare_exchange_acquire(&page->epoch, &found, epoch_repairing)) {
    run_repair(held_in_parent);
    hk_store_release(&page->epoch, epoch_ready);
  } else if (found == epoch_repairing) {
    hk_os_wait(futex_of(&page->epoch), epoch_repairing);
  }
  hk_store_relaxed(&held_mask, held_in_parent);
  hk_store_relaxed(&held_shards, shards_in_parent);
  if (hk_load_relaxed(&page->epoch) == epoch_ready) hk_os_wake_one(futex_of(&page->epoch));
}

/* Returns whether this thread may use what the locks guard. */
static bool may_enter(void) {
  uint32_t epoch = hk_load_acquire(&page->epoch);
  return HK_LIKELY(epoch == epoch_ready) || (epoch == epoch_repairing && is_repairing);
}

bool hk_lock_init(void (*repair_child)(void)) {
  repair = repair_child;
  size_t bytes = hk_os_page_size();
  lock_page_t *wiped_page = hk_os_reserve(bytes, bytes);
  if (wiped_page == NULL) return false;
  if (!hk_os_wipe_on_fork(wiped_page, bytes)) {
    (void)hk_os_unmap(wiped_page, bytes);
    return true;
  }
  for (unsigned id = 0; id < hk_lock_count; id++) {
    hk_store_relaxed(&wiped_page->lock[id].takes, hk_load_relaxed(&page->lock[id].takes));
  }
  hk_store_relaxed(&wiped_page->generation, hk_load_relaxed(&page->generation));
  hk_store_release(&wiped_page->epoch, epoch_ready);
  page = wiped_page;
  return true;
}

void hk_lock_acquire(hk_lock_id_t id) {
  lock_line_t *line = &page->lock[id];
  if (id == hk_lock_space) hk_count(hk_count_common_lock, 1);
  check_rank(id);
  take(line);
  while (HK_UNLIKELY(!may_enter())) {
    give(line);
    join_repair();
    take(line);
  }
  hk_store_relaxed(&held_shards, hk_load_relaxed(&held_shards) | shard_bit_of(id));
  note_hold(bit_of(id));
}

/* Runs the repair that the at-fork hook deferred, once this thread has finished the steps that the fork interrupted. */
static void repair_if_deferred(void) {
  if (HK_LIKELY(!hk_load_relaxed(&is_repair_deferred)) || hk_load_relaxed(&held_mask) != 0) return;
  hk_store_relaxed(&is_repair_deferred, false);
  hk_lock_wait_for_repair();
}

void hk_lock_release(hk_lock_id_t id) {
  check_held(id);
  uint32_t shards = hk_load_relaxed(&held_shards) & ~shard_bit_of(id);
  hk_store_relaxed(&held_shards, shards);
  if (!is_of_shard(id) || shards == 0) note_release(bit_of(id));
  give(&page->lock[id]);
  repair_if_deferred();
}

void hk_lock_defer_repair(void) { note_hold(STEPS_BIT); }

void hk_lock_allow_repair(void) {
  note_release(STEPS_BIT);
  repair_if_deferred();
}

void hk_lock_wait_for_repair(void) {
  while (HK_UNLIKELY(!may_enter())) join_repair();
}

/* Sets a lock to zero, as the kernel does on fork. */
static void wipe(lock_line_t *line) {
  hk_store_relaxed(&line->word, word_free);
  hk_store_relaxed(&line->sleeps, 0);
  hk_store_relaxed(&line->takes, 0);
  hk_store_relaxed(&line->waits, 0);
}

bool hk_lock_after_fork(bool is_child) {
  if (is_child && page == &unwiped_page) {
    for (unsigned id = 0; id < hk_lock_count; id++) wipe(&page->lock[id]);
    hk_store_relaxed(&page->generation, 0);
    hk_store_release(&page->epoch, epoch_wiped);
  }
  if (is_child && hk_load_relaxed(&held_mask) != 0) {
    hk_store_relaxed(&is_repair_deferred, true);
    return false;
  }
  if (hk_load_acquire(&page->epoch) == epoch_wiped) join_repair();
  return true;
}

/* When several threads read the generation first at the same moment, one of them sets it for all. */
uint32_t hk_lock_generation(void) {
  uint32_t found = hk_load_relaxed(&page->generation);
  if (HK_LIKELY(found != 0)) return found;
  uint32_t next = hk_add_relaxed(&last_generation, 1) + 1;
  return hk_compare_exchange_acquire(&page->generation, &found, next) ? next : found;
}

bool hk_lock_needs_repair(void) { return hk_load_acquire(&page->epoch) != epoch_ready; }

uint64_t hk_lock_sleep_count(hk_lock_id_t id) { return hk_load_relaxed(&page->lock[id].sleeps); }
uint64_t hk_lock_take_count(hk_lock_id_t id) { return hk_load_relaxed(&page->lock[id].takes); }
uint64_t hk_lock_wait_count(hk_lock_id_t id) { return hk_load_relaxed(&page->lock[id].waits); }
