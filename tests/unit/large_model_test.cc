// space/large: random blocks against a model.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/large_driver.h"

using namespace hk_test;

namespace {

class LargeModel {
 public:
  explicit LargeModel(uint64_t seed) : random_(seed) {}

  void Step() {
    size_t choice = random_.Below(100);
    if (choice < 45) {
      Take();
    } else if (choice < 80) {
      GiveBack();
    } else if (choice < 97) {
      Change();
    } else {
      (void)hk_purge_down_to(random_.Below(32) * HK_MIB);
    }
    fake_os_advance(random_.Below(20000000));
    size_t bytes = 0;
    for (auto &one : held_) bytes += one.second.bytes;
    ExpectUsage(held_.size(), bytes);
    ExpectNothingLost();
  }

  void GiveBackAll() {
    while (!held_.empty()) GiveBack();
  }

 private:
  struct Held {
    size_t bytes;
    uint64_t stamp;
  };

  void Hold(char *block, size_t bytes) {
    auto next = held_.lower_bound(block);
    ASSERT_TRUE(next == held_.end() || block + bytes <= next->first);
    ASSERT_TRUE(next == held_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= block);
    held_[block] = {bytes, random_.Next() | 1};
    Fill(block, bytes, held_[block].stamp);
    ExpectBig(block, bytes);
  }

  void Take() {
    if (held_.size() >= 24) return;
    size_t asked = random_.LogBetween(1, 24 * HK_MIB);
    size_t alignment = size_t{1} << random_.Below(random_.OneIn(4) ? 25 : 17);
    char *block = Alloc(asked, alignment);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(AddressOf(block) % alignment, 0u);
    size_t bytes = hk_large_good_size(asked);
    ASSERT_TRUE(!is_zero || Holds(block, bytes, 0));
    Hold(block, bytes);
  }

  std::map<char *, Held>::iterator Any() { return std::next(held_.begin(), random_.Below(held_.size())); }

  void GiveBack() {
    if (held_.empty()) return;
    auto any = Any();
    ASSERT_TRUE(Holds(any->first, any->second.bytes, any->second.stamp)) << "another owner wrote into it";
    EXPECT_TRUE(Free(any->first));
    held_.erase(any);
  }

  void Change() {
    if (held_.empty()) return;
    auto any = Any();
    char *block = any->first;
    Held old = any->second;
    size_t bytes = hk_large_good_size(random_.LogBetween(1, 24 * HK_MIB));
    char *moved = Resize(block, bytes);
    if (moved == nullptr) return; /* its mapping is not whole, say */
    size_t kept = std::min(bytes, old.bytes);
    for (size_t at = 0; at + sizeof old.stamp < kept; at += HK_MIB) {
      ASSERT_EQ(memcmp(moved + at, &old.stamp, sizeof old.stamp), 0) << at;
    }
    held_.erase(any);
    Hold(moved, bytes);
  }

  hk_test::TestRandom random_;
  std::map<char *, Held> held_;
};

void RunAgainstModel(uint64_t seed) {
  hk_option.retain = 16 * HK_MIB;
  LargeModel model(seed);
  for (int i = 0; i < 4000 && !testing::Test::HasFailure(); i++) model.Step();
  model.GiveBackAll();
  Trim();
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(LargeModel, RandomBlocksNeverOverlap) {
  RunAgainstModel(1);
  ExpectCached(0, 0);
}

HK_FRESH_TEST(LargeModel, NorWhileTheSystemTakesNothingBack) {
  fake_os_fail_all(fake_os_unmap, true);
  RunAgainstModel(2);
}

HK_FRESH_TEST(LargeModel, NorWhileItDoesNotEvenPurge) {
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  fake_os_fail_all(fake_os_move, true);
  RunAgainstModel(3);
}

}  // namespace
