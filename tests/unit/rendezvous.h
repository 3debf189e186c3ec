// Threads that do something at the same moment, again and again.
#ifndef HK_TESTS_UNIT_RENDEZVOUS_H
#define HK_TESTS_UNIT_RENDEZVOUS_H

#include <atomic>
#include <thread>

namespace hk_test {
inline namespace rendezvous {

// Each Wait returns when all threads have called theirs. They turn rather than sleep, so that they leave together.
class Rendezvous {
 public:
  explicit Rendezvous(unsigned thread_count) : thread_count_(thread_count) {}

  void Wait() {
    unsigned round = round_;
    if (++arrived_ == thread_count_) {
      arrived_ = 0;
      round_++;
      return;
    }
    for (unsigned turns = 1; round_ == round; turns++) {
      if (turns % 1024 == 0) std::this_thread::yield();
    }
  }

 private:
  const unsigned thread_count_;
  std::atomic<unsigned> arrived_{0};
  std::atomic<unsigned> round_{0};
};

}  // namespace rendezvous
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_RENDEZVOUS_H
