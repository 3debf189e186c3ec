/* space/dirty_account.c - L3. See dirty_account.h. In a child of fork the sums may be those of a moment when a thread
 * of the parent was changing them: they decide when memory is purged and nothing else. */
#include "space/dirty_account.h"

#include "base/arithmetic.h"

hk_dirty_account_t hk_dirty_slabs[HK_SHARD_MAX];
hk_dirty_account_t hk_dirty_extents;

/* No extent has a higher age, and no superslab had one at the last look at its shard. Written under hk_lock_space, read
 * by holders of an account's lock. */
static _Atomic(uint64_t) newest_age;

HK_NOINLINE hk_dirty_sums_t hk_dirty_sums_of_slabs(void) {
  hk_dirty_sums_t sums = {0};
  for (unsigned i = 0; i < hk_load_relaxed(&hk_shard_count); i++) hk_dirty_add(&sums, &hk_dirty_slabs[i]);
  return sums;
}

hk_dirty_sums_t hk_dirty_sums(void) {
  hk_dirty_sums_t sums = hk_dirty_sums_of_slabs();
  hk_dirty_add(&sums, &hk_dirty_extents);
  return sums;
}

uint64_t hk_dirty_take_put_off_locked(void) {
  uint64_t last_ms = 0;
  for (unsigned i = 0; i < hk_dirty_account_count(); i++) {
    _Atomic(uint64_t) *put_off_ms = &hk_dirty_account_at(i)->put_off_ms;
    if (hk_load_relaxed(put_off_ms) != 0) last_ms = hk_larger(last_ms, hk_exchange_acq_rel(put_off_ms, 0));
  }
  return last_ms;
}

static uint64_t youngest_of_all(void) {
  uint64_t youngest = hk_load_relaxed(&newest_age);
  for (unsigned i = 0; i < hk_dirty_account_count(); i++) {
    uint64_t age = hk_load_relaxed(&hk_dirty_account_at(i)->last_age);
    if (age > youngest) youngest = age;
  }
  return youngest;
}

uint64_t hk_dirty_next_age_locked(hk_dirty_account_t *account) {
  bool is_of_extents = account == &hk_dirty_extents;
  uint64_t others = is_of_extents ? youngest_of_all() : hk_load_relaxed(&newest_age);
  uint64_t own = hk_load_relaxed(&account->last_age), age = (own > others ? own : others) + 1;
  hk_store_relaxed(&account->last_age, age);
  if (is_of_extents) hk_store_relaxed(&newest_age, age);
  return age;
}

void hk_dirty_note_age_locked(hk_dirty_account_t *account) {
  uint64_t age = hk_load_relaxed(&account->last_age);
  if (age > hk_load_relaxed(&newest_age)) hk_store_relaxed(&newest_age, age);
}

/* A thread that reads the sums meanwhile may miss what moves, or count it twice: up to a superslab, for a moment. The
 * sums at the end of the last change may be less than what moves: slabs also come and go without such an end. */
void hk_dirty_move_locked(hk_dirty_account_t *from, hk_dirty_account_t *to, const hk_dirty_sums_t *sums) {
  size_t held_bytes = sums->in_use_bytes + sums->dirty_bytes;
  hk_bump_relaxed(&to->in_use_bytes, sums->in_use_bytes);
  hk_bump_relaxed(&to->dirty_bytes, sums->dirty_bytes);
  hk_bump_relaxed(&to->lazy_bytes, sums->lazy_bytes);
  to->ended_in_use_bytes += sums->in_use_bytes;
  to->ended_dirty_bytes += sums->dirty_bytes;
  to->look.in_use_bytes += sums->in_use_bytes;
  to->look.most_dirty_bytes = hk_add_saturating(to->look.most_dirty_bytes, sums->dirty_bytes);
  to->look.most_held_bytes = hk_add_saturating(to->look.most_held_bytes, held_bytes);
  hk_bump_relaxed(&from->in_use_bytes, -sums->in_use_bytes);
  hk_bump_relaxed(&from->dirty_bytes, -sums->dirty_bytes);
  hk_bump_relaxed(&from->lazy_bytes, -sums->lazy_bytes);
  from->ended_in_use_bytes = hk_subtract_to_zero(from->ended_in_use_bytes, sums->in_use_bytes);
  from->ended_dirty_bytes = hk_subtract_to_zero(from->ended_dirty_bytes, sums->dirty_bytes);
  from->look.in_use_bytes -= sums->in_use_bytes;
  from->look.most_dirty_bytes = hk_subtract_to_zero(from->look.most_dirty_bytes, sums->dirty_bytes);
  from->look.most_held_bytes = hk_subtract_to_zero(from->look.most_held_bytes, held_bytes);
}
