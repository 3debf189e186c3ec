// A program that has a purge thread. The thread's function runs in the test's own thread; while it would sleep, the
// program does what it is to do in that time.
#ifndef HK_TESTS_UNIT_PURGE_COURSE_H
#define HK_TESTS_UNIT_PURGE_COURSE_H

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "fake_os.h"
#include "os/lock.h"
#include "unit/core_parts.h"

extern "C" {
#include "api/purge_thread.h"
#include "space/dirty.h"
#include "space/purge.h"
#include "space/purge_wakeup.h"
}

namespace hk_test {
inline namespace purge_course {

inline void *TakeBytes(size_t bytes) {
  bool is_zero;
  return hk_large_alloc(bytes, HK_BLOCK_ALIGNMENT, &is_zero);
}
inline void DropBlock(void *block) { (void)hk_large_free(hk_slab_of(block), block); }

// Many blocks, with blocks of `between_bytes` between them that stay: none of them is a neighbour of another.
inline std::vector<void *> TakeApart(size_t count, size_t bytes, size_t between_bytes) {
  std::vector<void *> blocks;
  for (size_t i = 0; i < count; i++) {
    blocks.push_back(TakeBytes(bytes));
    (void)TakeBytes(between_bytes);
  }
  return blocks;
}
inline void DropAll(const std::vector<void *> &blocks) {
  for (void *block : blocks) DropBlock(block);
}

inline uint64_t BreakEvenMs() {
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  return hk_price_break_even_ms(&learned.price);
}
inline uint64_t LearnedTimeoutMs() {
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  return hk_learn_timeout_ms(&learned);
}

inline bool IsPurgeThreadHeard() {
  hk_lock_acquire(hk_lock_space);
  bool is_heard = hk_purge_wakeup_has_thread_locked();
  hk_lock_release(hk_lock_space);
  return is_heard;
}

// One at a time.
class PurgeCourse {
 public:
  struct Sleep {
    uint64_t from_ms;
    uint64_t for_ms;
  };

  // Two threads have a heap.
  PurgeCourse() : company_{hk_heap_take(), hk_heap_take()} { current = this; }
  ~PurgeCourse() {
    hk_heap_give_back(company_[0]);
    if (company_[1] != nullptr) EndCompany();
  }
  PurgeCourse(const PurgeCourse &) = delete;
  PurgeCourse &operator=(const PurgeCourse &) = delete;

  // In ms of the machine's clock since it began.
  static uint64_t Now() { return hk_os_coarse_ms() - fake_os_start_ns / 1000000; }
  static void SetNow(uint64_t ms) { fake_os_set_now(fake_os_start_ns + ms * 1000000); }

  void At(uint64_t ms, std::function<void()> act) { events_.emplace(ms, std::move(act)); }

  // Whether the next request would have started it.
  static bool Start() {
    uint64_t before = fake_os_calls(fake_os_thread_start);
    hk_purge_thread_consider();
    return fake_os_calls(fake_os_thread_start) > before && fake_os_thread() != nullptr;
  }

  // What the purge thread does until nothing is to be done any more, one visit later, and it has no company.
  void Run() {
    fake_os_set_wait_hook([] { current->PassSleep(); });
    fake_os_thread()();
  }

  void EndCompany() {
    hk_heap_give_back(company_[1]);
    company_[1] = nullptr;
  }

  // Each time that it went to sleep.
  const std::vector<Sleep> &sleeps() const { return sleeps_; }
  bool HasVisitedAt(uint64_t ms) const {
    for (const Sleep &sleep : sleeps_) {
      if (sleep.from_ms == ms) return true;
    }
    return false;
  }

 private:
  void PassSleep() {
    uint64_t for_ms = fake_os_waited_ms(), until_ms = Now() + for_ms;
    uint32_t word = hk_load_relaxed(&hk_purge_wakeup_word);
    sleeps_.push_back({Now(), for_ms});
    while (!events_.empty() && events_.begin()->first <= until_ms) {
      auto event = events_.begin();
      if (event->first > Now()) SetNow(event->first);
      std::function<void()> act = std::move(event->second);
      events_.erase(event);
      act();
      if (hk_load_relaxed(&hk_purge_wakeup_word) != word) return;
    }
    if (events_.empty() && company_[1] != nullptr) EndCompany();
    if (until_ms > Now()) SetNow(until_ms);
  }

  inline static PurgeCourse *current;
  hk_heap_t *company_[2];
  std::multimap<uint64_t, std::function<void()>> events_;
  std::vector<Sleep> sleeps_;
};

}  // namespace purge_course
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_PURGE_COURSE_H
