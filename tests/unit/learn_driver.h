// A learner, and the memory that it notes.
#ifndef HK_TESTS_UNIT_LEARN_DRIVER_H
#define HK_TESTS_UNIT_LEARN_DRIVER_H

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/units.h"
#include "policy/learn.h"

namespace hk_test {
inline namespace learn_driver {

class Learn : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(hk_learn_init(&learn_, 0, HK_PRICE_BALANCED)); }

  // Takes memory, frees it, and rests, as often as that.
  void Burst(unsigned count, size_t bytes, uint64_t gap_ms) {
    for (unsigned i = 0; i < count; i++) {
      hk_learn_note(&learn_, now_ms_, 10 * HK_MIB + bytes);
      hk_learn_note(&learn_, now_ms_ += 10, 10 * HK_MIB);
      now_ms_ += gap_ms;
    }
  }

  // Nothing changes until then, and whenever something is due it is done. How often that was.
  unsigned WakeUntil(uint64_t end_ms, size_t in_use) {
    unsigned count = 0;
    for (uint64_t due_ms; hk_learn_next_due(&learn_, &due_ms) && due_ms < end_ms; count++) {
      hk_learn_note(&learn_, due_ms, in_use);
    }
    hk_learn_note(&learn_, now_ms_ = end_ms, in_use);
    return count;
  }

  uint64_t Timeout() const { return hk_learn_timeout_ms(&learn_); }
  uint64_t BreakEven() const { return learn_.price.timeout_ms[HK_PRICE_BREAK_EVEN]; }

  std::string LastDecision() const {
    char text[200];
    hk_format_t format;
    hk_format_init(&format, text, sizeof text);
    hk_learn_decision_text(hk_learn_log_find(&learn_.log, 0), &format);
    return text;
  }

  bool HasDecided(hk_learn_reason_t reason) const {
    for (uint64_t back = 0; const hk_learn_decision_t *decision = hk_learn_log_find(&learn_.log, back); back++) {
      if (decision->reason == reason) return true;
    }
    return false;
  }

  hk_learn_t learn_;
  uint64_t now_ms_ = 5000;
};

}  // namespace learn_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_LEARN_DRIVER_H
