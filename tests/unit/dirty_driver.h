// Drives space/dirty: sums that are the test's own, looks at their changes, and visits of a purge thread.
#ifndef HK_TESTS_UNIT_DIRTY_DRIVER_H
#define HK_TESTS_UNIT_DIRTY_DRIVER_H

#include "os/lock.h"
#include "unit/core_parts.h"

extern "C" {
#include "space/apart.h"
#include "space/dirty.h"
#include "space/purge_wakeup.h"
}

namespace hk_test {

inline void SetSums(size_t in_use_bytes, size_t dirty_bytes) {
  hk_store_relaxed(&hk_dirty_extents.in_use_bytes, in_use_bytes);
  hk_store_relaxed(&hk_dirty_extents.dirty_bytes, dirty_bytes);
}

inline hk_purge_verdict_t Look(uint64_t now_ms) {
  hk_lock_acquire(hk_lock_space);
  hk_purge_verdict_t verdict = {};
  if (!hk_dirty_put_off_locked(&hk_dirty_extents, now_ms)) verdict = hk_dirty_look_locked(&hk_dirty_extents, now_ms);
  hk_lock_release(hk_lock_space);
  return verdict;
}

inline hk_purge_verdict_t Change(uint64_t now_ms, size_t in_use_bytes, size_t dirty_bytes) {
  SetSums(in_use_bytes, dirty_bytes);
  return Look(now_ms);
}

struct Visited {
  hk_purge_verdict_t verdict;
  uint64_t wait_ms;
};
inline Visited Visit(uint64_t now_ms) {
  Visited visited;
  hk_lock_acquire(hk_lock_space);
  visited.verdict = hk_dirty_visit_locked(now_ms, &visited.wait_ms);
  hk_lock_release(hk_lock_space);
  hk_dirty_end_visit();
  return visited;
}

inline hk_learn_t Learned() {
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  return learned;
}

inline uint64_t QuietSince(uint64_t now_ms) {
  uint64_t since_ms;
  (void)hk_dirty_is_quiet(now_ms, &since_ms);
  return since_ms;
}

}  // namespace hk_test

#endif  // HK_TESTS_UNIT_DIRTY_DRIVER_H
