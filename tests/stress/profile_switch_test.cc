/* tests/stress/profile_switch_test.cc - the heap profile is started and stopped all the time while threads allocate,
 * hand blocks around, resize, end and fork. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "stress/stress_blocks.h"
#include "stress/stress_pipe.h"
#include "stress/stress_threads.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* Many rates, so that sampling closes bins at once, soon and never; and now and then all memory goes back. */
void Switch(std::atomic<bool> *done) {
  TestRandom random(SeedFor("ProfileSwitch", 0));
  while (!*done) {
    EXPECT_TRUE(hakmem_profile_start(size_t{1} << random.Below(21)));
    EXPECT_FALSE(hakmem_profile_start(1));
    for (size_t i = random.Below(200); i > 0; i--) hakmem_free(hakmem_malloc(random.Below(3000)));
    if (random.Below(8) == 0) (void)hakmem_collect();
    EXPECT_TRUE(hakmem_profile_stop());
    for (size_t i = random.Below(50); i > 0; i--) hakmem_free(hakmem_malloc(random.Below(3000)));
  }
}

void Exchange(std::vector<Mailbox> *boxes, size_t self, size_t operations) {
  TestRandom random(SeedFor("ProfileExchange", self));
  std::vector<void *> own;
  for (size_t i = 0; i < operations; i++) {
    if (own.size() < 20 || (random.Below(100) < 45 && own.size() < 200)) {
      own.push_back(Make(&random));
      continue;
    }
    size_t victim = random.Below(own.size());
    void *block = own[victim];
    own[victim] = own.back();
    own.pop_back();
    if (random.Below(2) == 0) {
      Drop(block);
      continue;
    }
    (*boxes)[random.Below(boxes->size())].Put({block});
    for (void *received : (*boxes)[self % boxes->size()].TakeAll()) own.push_back(received);
  }
  for (void *block : own) Drop(block);
}

class ProfileSwitch : public Stress {};

TEST_F(ProfileSwitch, WhileOthersExchangeBlocks) {
  constexpr size_t kThreads = 4;
  std::vector<Mailbox> boxes(kThreads);
  std::atomic<bool> done{false};
  std::thread switcher(Switch, &done);
  for (int generation = 0; generation < 4; generation++) {
    RunThreads(kThreads, [&boxes](size_t self) { Exchange(&boxes, self, Scaled(60000, 2000)); });
  }
  done = true;
  switcher.join();
  for (Mailbox &box : boxes) {
    for (void *block : box.TakeAll()) Drop(block);
  }
}

#if !HAKMEM_TEST_SANITIZER
TEST_F(ProfileSwitch, WhileTheProcessForks) {
  std::atomic<bool> done{false};
  std::thread switcher(Switch, &done);
  std::vector<Mailbox> boxes(2);
  std::thread other([&boxes, &done] {
    while (!done) Exchange(&boxes, 1, 2000);
  });
  for (size_t i = 0; i < Scaled(100, 10); i++) {
    EXPECT_EQ(hk_test::InChild([] {
                std::vector<Mailbox> mine(1); /* the others may be locked */
                alarm(HangSeconds() / 2);
                std::thread([&mine] { Exchange(&mine, 0, 2000); }).join();
                Exchange(&mine, 0, 2000);
                return wrong_count == 0 ? 0 : 1;
              }),
              0);
    Exchange(&boxes, 0, 500);
  }
  done = true;
  other.join();
  switcher.join();
}
#endif

}  // namespace
