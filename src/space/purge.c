/* space/purge.c - L3. See purge.h. No memory is purged under a lock. The chosen memory, slabs of a superslab or a
 * free extent, is first taken from the masks or from the free extents. So no other thread can take it meanwhile.
 *
 * With the option for lazy purging, slabs between slabs in use are purged lazily when dirty memory exceeds the
 * limit. Memory that can be unmapped is unmapped. A purge that a caller requests, or that a near limit causes, is
 * never lazy, and it includes the memory that was purged lazily before.
 */
#include "space/purge.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "base/mask.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/safety.h"
#include "policy/stat.h"
#include "space/class_slabs.h"
#include "space/dirty.h"
#include "space/end_guard.h"
#include "space/extent.h"
#include "space/huge.h"
#include "space/purge_wakeup.h"
#include "space/recording.h"
#include "space/region_map.h"
#include "space/space_check.h"
#include "space/superslab_index.h"
#include "space/timed_call.h"

typedef struct {
  size_t bytes; /* that may be resident */
  /* The dirty ones of them; the others were purged lazily before. */
  size_t dirty_bytes;
  bool is_lazy;              /* it may be purged lazily */
  hk_superslab_t *superslab; /* NULL when it is an extent */
  uintptr_t start;           /* of the superslab */
  uint32_t bits;
  bool is_unmapped;  /* the slabs no longer belong to the superslab */
  bool is_huge_over; /* hk_huge_forbid_again is due */
  hk_extent_t extent;
} victim_t;

/* ---- Choosing. */

/* Returns the slabs to purge. A lazy purge skips those that were purged lazily before. */
static uint32_t bits_to_purge(const hk_superslab_t *superslab, bool is_lazy) {
  return is_lazy ? hk_superslab_index_dirty_bits(superslab) : superslab->free_mask & superslab->used_mask;
}

/* Takes the victim's slabs out of the masks. Slabs to be unmapped also leave the superslab, because another thread may
 * get their addresses. */
static void claim_slabs_locked(hk_superslab_t *superslab, bool is_unmapped, victim_t *victim) {
  victim->superslab = superslab;
  victim->start = superslab->start;
  victim->is_unmapped = is_unmapped;
  victim->is_lazy = victim->is_lazy && !is_unmapped;
  uint32_t resident = bits_to_purge(superslab, victim->is_lazy);
  victim->bytes = hk_superslab_index_bytes_of(resident);
  victim->dirty_bytes = hk_superslab_index_bytes_of(hk_superslab_index_dirty_bits(superslab));
  victim->is_huge_over = hk_huge_take_apart_locked(superslab);
  if (is_unmapped) {
    victim->bits = hk_superslab_index_detach_free_locked(superslab);
    return;
  }
  victim->bits = resident;
  hk_superslab_index_withdraw_locked(superslab, resident);
}

static void claim_superslab_locked(hk_superslab_t *superslab, victim_t *victim) {
  claim_slabs_locked(superslab, hk_superslab_index_is_wholly_free(superslab), victim);
}

/* Returns whether memory that can be purged whole is to go before the oldest superslab. A purge of part of a huge page
 * splits it, and the rest stays as small pages. */
static bool is_better_whole_locked(const hk_superslab_t *oldest) {
  return oldest->is_huge && !hk_superslab_index_is_wholly_free(oldest);
}

static bool claim_extent_locked(bool or_zero, size_t most_bytes, victim_t *victim) {
  if (hk_extent_oldest_bytes_locked() > most_bytes) return false;
  if (!hk_extent_take_oldest_locked(or_zero, &victim->extent)) return false;
  victim->superslab = NULL;
  victim->is_lazy = false;
  victim->bytes = victim->dirty_bytes = victim->extent.is_zero ? 0 : victim->extent.bytes;
  return true;
}

static bool claim_whole_locked(size_t most_bytes, victim_t *victim) {
  hk_superslab_t *superslab = hk_superslab_index_wholly_free_of_all_locked();
  if (superslab == NULL || bits_to_purge(superslab, victim->is_lazy) == 0)
    return claim_extent_locked(false, most_bytes, victim);
  claim_superslab_locked(superslab, victim);
  return true;
}

/* Claims the oldest memory of either kind, but no extent above `most_bytes`. `or_zero`: where none is dirty, also an
 * extent that holds no memory. */
static bool claim_oldest_locked(bool or_zero, size_t most_bytes, victim_t *victim) {
  hk_superslab_t *superslab = hk_superslab_index_oldest_locked();
  if (superslab != NULL && is_better_whole_locked(superslab) && claim_whole_locked(most_bytes, victim)) return true;
  if (superslab == NULL || hk_extent_oldest_age_locked() < superslab->dirty_since)
    return claim_extent_locked(or_zero, most_bytes, victim);
  claim_superslab_locked(superslab, victim);
  return true;
}

/* Chosen: as the peak rises, an extent goes when it has risen by this part of it (measured:
 * docs/experiments/2026-11-28-purge-at-the-peak.md). */
#define PEAK_EXTENT_SHARE 4

/* Returns the largest extent to purge: an extent is not divided. Memory that stays by age is a share of all dirty
 * memory, and an extent goes when less than half of it should stay. */
static size_t largest_extent(size_t excess_bytes, hk_purge_cause_t cause) {
  if (cause == hk_purge_too_old) return hk_add_saturating(excess_bytes, excess_bytes);
  return cause == hk_purge_at_peak ? excess_bytes * PEAK_EXTENT_SHARE : SIZE_MAX;
}

/* Claims lazily purged memory, which is older than dirty memory. */
static bool claim_lazy_locked(victim_t *victim) {
  hk_superslab_t *superslab = hk_superslab_index_lazy_locked();
  if (superslab == NULL) return false;
  claim_superslab_locked(superslab, victim);
  return true;
}

static bool claim_locked(size_t keep_bytes, size_t most_bytes, hk_purge_cause_t cause, victim_t *victim) {
  bool or_zero = keep_bytes == 0 && cause != hk_purge_at_peak;
  bool may_be_lazy = cause == hk_purge_too_much || cause == hk_purge_too_old;
  hk_dirty_sums_t sums = hk_dirty_sums();
  size_t lazy_bytes = may_be_lazy ? 0 : sums.lazy_bytes;
  size_t excess_bytes = hk_smaller(hk_subtract_to_zero(sums.dirty_bytes + lazy_bytes, keep_bytes), most_bytes);
  victim->is_lazy = may_be_lazy && hk_option.purge == hk_purge_free;
  if (!or_zero && excess_bytes == 0) return false;
  if (!may_be_lazy && claim_lazy_locked(victim)) return true;
  return claim_oldest_locked(or_zero, largest_extent(excess_bytes, cause), victim);
}

static bool claim_victim(size_t keep_bytes, size_t most_bytes, hk_purge_cause_t cause, victim_t *victim) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_superslab_index_lock_all();
  bool found = claim_locked(keep_bytes, most_bytes, cause, victim);
  if (found) hk_dirty_note_purged_locked(now_ms, cause, victim->dirty_bytes);
  hk_superslab_index_unlock_all();
  hk_space_check();
  return found;
}

/* ---- Purging. */

/* Unmaps an extent and the end guard behind it, or neither. */
static bool unmap_with_guard(hk_extent_t extent) {
  uintptr_t end = extent.start + extent.bytes;
  size_t guard_bytes = hk_end_guard_end(end);
  if (hk_timed_call_unmap((void *)extent.start, extent.bytes + guard_bytes)) return true;
  if (guard_bytes != 0) hk_end_guard_begin(end);
  return false;
}

hk_os_purge_t hk_purge_unmap(hk_extent_t extent) {
  if (unmap_with_guard(extent)) return hk_os_purge_done;
  extent.is_zero = extent.is_zero || hk_timed_call_purge((void *)extent.start, extent.bytes);
  hk_lock_acquire(hk_lock_space);
  hk_extent_put_locked(extent);
  hk_lock_release(hk_lock_space);
  hk_space_check();
  return extent.is_zero ? hk_os_purge_done : hk_os_purge_refused;
}

/* Returns the first row of slabs in `bits`. */
static hk_extent_t first_row(const victim_t *victim, uint32_t bits) {
  unsigned first = hk_lowest_bit(bits);
  uint32_t from_first = ~(bits >> first);
  unsigned count = from_first == 0 ? HK_SUPERSLAB_SLABS : hk_lowest_bit(from_first);
  if (count > HK_SUPERSLAB_SLABS - first) count = HK_SUPERSLAB_SLABS - first;
  return (hk_extent_t){.start = victim->start + first * HK_SLAB_BYTES, .bytes = count * HK_SLAB_BYTES};
}

static uint32_t bits_of(const victim_t *victim, hk_extent_t row) {
  return hk_mask_range((unsigned)((row.start - victim->start) / HK_SLAB_BYTES), (unsigned)(row.bytes / HK_SLAB_BYTES));
}

static hk_os_purge_t purge_row(const victim_t *victim, hk_extent_t row) {
  if (HK_UNLIKELY(victim->is_lazy)) return hk_os_purge_lazily((void *)row.start, row.bytes);
  return hk_timed_call_purge((void *)row.start, row.bytes) ? hk_os_purge_done : hk_os_purge_refused;
}

/* Purges all rows. Returns the worst result of any of them. */
static hk_os_purge_t purge_rows(const victim_t *victim) {
  hk_os_purge_t least = hk_os_purge_done;
  for (uint32_t left = victim->bits; left != 0;) {
    hk_extent_t row = first_row(victim, left);
    hk_os_purge_t result = victim->is_unmapped ? hk_purge_unmap(row) : purge_row(victim, row);
    if (result < least) least = result;
    left &= ~bits_of(victim, row);
  }
  return least;
}

/* Puts purged slabs back among the free ones. If a signal handler has forked since they were taken out, they count as
 * in use in the child. */
static void put_back_locked(const victim_t *victim, bool used) {
  if (HK_UNLIKELY((victim->superslab->in_use_mask & victim->bits) != 0)) {
    hk_superslab_index_unclaim_locked(victim->superslab, victim->bits, used);
  } else {
    hk_superslab_index_put_back_locked(victim->superslab, victim->bits, used);
  }
}

/* Purges slabs. Where the system refuses, the memory stays dirty. */
static hk_os_purge_t purge_slabs(const victim_t *victim) {
  if (victim->is_unmapped) /* before another thread has the addresses */
    hk_superslab_index_set_states(hk_slab_of((void *)victim->start), victim->bits, hk_slab_none);
  hk_os_purge_t purged = purge_rows(victim);
  if (victim->is_unmapped) return purged;
  if (HK_UNLIKELY(victim->is_huge_over)) hk_huge_forbid_again(victim->start);
  unsigned shard = hk_superslab_index_lock_of(victim->superslab);
  put_back_locked(victim, purged != hk_os_purge_done);
  if (purged == hk_os_purge_lazy) hk_superslab_index_note_lazy_locked(victim->superslab, victim->bits);
  hk_superslab_index_unlock(shard);
  hk_space_check();
  return purged;
}

static hk_os_purge_t purge_victim(const victim_t *victim) {
  return victim->superslab != NULL ? purge_slabs(victim) : hk_purge_unmap(victim->extent);
}

/* Purges down to `keep_bytes`, but little more than `most_bytes`: other threads may free more memory meanwhile. */
static HK_NOINLINE size_t purge_to(size_t keep_bytes, size_t most_bytes, hk_purge_cause_t cause) {
  size_t purged_bytes = 0;
  victim_t victim;
  /* Each superslab and extent once: memory that the system refuses goes to the end of its list again. */
  size_t left = hk_superslab_index_superslab_count() + hk_extent_usage().count;
  for (; left > 0 && purged_bytes < most_bytes; left--) {
    if (!claim_victim(keep_bytes, most_bytes - purged_bytes, cause, &victim)) break;
    hk_os_purge_t purged = purge_victim(&victim);
    if (purged == hk_os_purge_refused) break; /* the next release or visit tries again */
    purged_bytes += victim.bytes;
    hk_stat_add(purged == hk_os_purge_lazy ? hk_stat_purged_lazily : hk_stat_purged, victim.bytes);
  }
  return purged_bytes;
}

static bool claim_free(victim_t *victim) {
  hk_superslab_index_lock_all();
  hk_superslab_t *superslab = hk_superslab_index_any_free_locked();
  if (superslab != NULL) claim_slabs_locked(superslab, true, victim);
  hk_superslab_index_unlock_all();
  return superslab != NULL;
}

bool hk_purge_unmap_free(void) {
  bool found = false;
  victim_t victim = {.is_lazy = false};
  for (size_t left = hk_superslab_index_superslab_count(); left > 0 && claim_free(&victim); left--) {
    if (purge_slabs(&victim) == hk_os_purge_refused) break;
    hk_stat_add(hk_stat_purged, victim.bytes);
    found = true;
  }
  return found;
}

static void purge_by(const hk_purge_verdict_t *verdict) {
  if (HK_HARDENED && verdict->is_apart_too_much) hk_class_slabs_purge_excess();
  if (verdict->is_too_much) (void)purge_to(verdict->keep_bytes, SIZE_MAX, verdict->cause);
}

/* Requires hk_lock_space and the account's lock. Returns whether a look for huge pages is due. */
static bool look_locked(hk_dirty_account_t *account, uint64_t now_ms, hk_purge_verdict_t *verdict) {
  *verdict = hk_dirty_look_locked(account, now_ms);
  return hk_huge_is_due_locked(now_ms);
}

/* Looks at the system's limit, and then at the change again. The first look may have sent a wake-up, which the second
 * does not send again. */
static HK_COLD hk_purge_verdict_t look_with_limit(uint64_t now_ms, bool is_wakeup_sent) {
  hk_dirty_look_at_limit(now_ms);
  hk_lock_acquire(hk_lock_space);
  hk_purge_verdict_t verdict = hk_dirty_look_locked(&hk_dirty_extents, now_ms);
  hk_lock_release(hk_lock_space);
  verdict.is_wakeup_sent = verdict.is_wakeup_sent || is_wakeup_sent;
  return verdict;
}

static HK_NOINLINE void purge_at_peak(uint64_t now_ms) {
  size_t keep_bytes, bytes = hk_dirty_look_at_peak(now_ms, &keep_bytes);
  if (bytes == 0) return;
  size_t purged_bytes = purge_to(keep_bytes, bytes, hk_purge_at_peak);
  hk_stat_add(hk_stat_purged_at_peak, purged_bytes);
  hk_dirty_settle_peak(bytes, purged_bytes);
}

/* Does the work that a verdict requires. Called without a lock. */
static void follow_verdict(hk_purge_verdict_t *verdict, bool is_huge_due, uint64_t now_ms) {
  if (HK_UNLIKELY(verdict->is_limit_look_due)) *verdict = look_with_limit(now_ms, verdict->is_wakeup_sent);
  purge_by(verdict);
  if (HK_UNLIKELY(verdict->is_peak_look_due)) purge_at_peak(now_ms);
  if (HK_UNLIKELY(is_huge_due)) hk_huge_look(now_ms);
  if (HK_UNLIKELY(verdict->is_wakeup_sent)) hk_purge_wakeup_wake();
  if (hk_recording_is_full()) hk_recording_write();
}

void hk_purge_end_change(uint64_t now_ms) {
  hk_purge_verdict_t verdict;
  bool is_put_off = hk_dirty_put_off_locked(&hk_dirty_extents, now_ms);
  bool is_huge_due = !is_put_off && look_locked(&hk_dirty_extents, now_ms, &verdict);
  hk_lock_release(hk_lock_space);
  hk_space_check();
  if (!is_put_off) follow_verdict(&verdict, is_huge_due, now_ms);
}

/* Looks at a change of a shard, releases the shard's lock, and does the work that is due. */
static HK_NOINLINE void look_at_shard(unsigned shard, uint64_t now_ms) {
  hk_purge_verdict_t verdict;
  hk_lock_acquire(hk_lock_space);
  bool is_huge_due = look_locked(&hk_dirty_slabs[shard], now_ms, &verdict);
  hk_lock_release(hk_lock_space);
  hk_superslab_index_unlock(shard);
  hk_space_check();
  follow_verdict(&verdict, is_huge_due, now_ms);
}

void hk_purge_end_change_of(unsigned shard, uint64_t now_ms) {
  if (!hk_dirty_put_off_locked(&hk_dirty_slabs[shard], now_ms)) {
    look_at_shard(shard, now_ms);
    return;
  }
  hk_superslab_index_unlock(shard);
  hk_space_check();
}

static hk_purge_verdict_t visit(uint64_t now_ms, uint64_t *wait_ms) {
  hk_lock_acquire(hk_lock_space);
  hk_purge_verdict_t verdict = hk_dirty_visit_locked(now_ms, wait_ms);
  hk_lock_release(hk_lock_space);
  hk_space_check();
  return verdict;
}

uint64_t hk_purge_visit(uint64_t now_ms) {
  uint64_t wait_ms;
  hk_purge_verdict_t verdict = visit(now_ms, &wait_ms);
  if (verdict.is_limit_look_due) {
    hk_dirty_look_at_limit(now_ms);
    verdict = visit(now_ms, &wait_ms); /* no change of the sums: the program may be quiet */
  }
  purge_by(&verdict);
  hk_dirty_end_visit();
  hk_huge_visit(now_ms);
  return wait_ms;
}

size_t hk_purge_down_to(size_t keep_bytes) {
  hk_lock_acquire(hk_lock_space);
  if (keep_bytes == 0) hk_dirty_forget_locked();
  hk_lock_release(hk_lock_space);
  return purge_to(keep_bytes, SIZE_MAX, hk_purge_requested);
}
