// Takes locks and holds them, and counts repairs.
#ifndef HK_TESTS_UNIT_LOCK_DRIVER_H
#define HK_TESTS_UNIT_LOCK_DRIVER_H

#include <atomic>
#include <chrono>
#include <thread>

#include "os/lock.h"

namespace hk_test {
inline namespace lock_driver {

inline std::atomic<int> repairs;

inline void CountRepair() { repairs++; }

inline void AcquireAndRelease(hk_lock_id_t id) {
  hk_lock_acquire(id);
  hk_lock_release(id);
}

inline void AcquireAllByRank() {
  for (int id = 0; id < hk_lock_count; id++) hk_lock_acquire(static_cast<hk_lock_id_t>(id));
  for (int id = hk_lock_count - 1; id >= 0; id--) hk_lock_release(static_cast<hk_lock_id_t>(id));
}

// A thread that holds a lock until told otherwise.
class Holder {
 public:
  explicit Holder(hk_lock_id_t id)
      : thread_([this, id] {
          hk_lock_acquire(id);
          holds_ = true;
          while (!leave_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          hk_lock_release(id);
        }) {
    while (!holds_) std::this_thread::yield();
  }
  ~Holder() {
    leave_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> holds_{false};
  std::atomic<bool> leave_{false};
  std::thread thread_;
};

}  // namespace lock_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_LOCK_DRIVER_H
