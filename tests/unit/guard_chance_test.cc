// heap/sample_countdown: each allocation has the same chance to be guarded, whatever the program frees between, and
// wherever the allocation lies in its pattern.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fresh_test.h"
#include "hakmem/hakmem.h"
#include "support/scale.h"

extern "C" {
#include "base/random.h"
#include "policy/sampling.h"
#include "policy/stat.h"
}

using namespace hk_test;
using hk_test::Scaled;

namespace {

// No slot can be had: a block that is chosen is counted as missed, and is an ordinary one.
uint64_t Chosen() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_guard_missed]); }

constexpr size_t kSizes[] = {16, 1000, 1025, 2000, 4096, 10000, 20000, 32768};
constexpr unsigned kPlaces = 4;

// The allocations, and those of them that were chosen, at each place of a pattern.
class Tally {
 public:
  void *Allocate(size_t size, unsigned place) {
    uint64_t before = Chosen();
    void *block = hakmem_malloc(size);
    count_[place]++;
    chosen_[place] += static_cast<double>(Chosen() - before);
    return block;
  }

  void ExpectChance(double chance, size_t size, const char *pattern) const {
    if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) {
      double all = count_[0] + count_[1] + count_[2] + count_[3],
             chosen = chosen_[0] + chosen_[1] + chosen_[2] + chosen_[3];
      std::printf("%zu %s: %.4f of %.4f\n", size, pattern, chosen / all, chance);
    }
    for (unsigned place = 0; place < kPlaces; place++) {
      double mean = chance * count_[place], deviation = std::sqrt(mean * (1 - chance));
      EXPECT_NEAR(chosen_[place], mean, 5 * deviation + 0.5) << size << " bytes, " << pattern << ", place " << place;
    }
  }

 private:
  std::array<double, kPlaces> count_{}, chosen_{};
};

uint64_t Below(uint64_t *random, uint64_t bound) { return hk_random(random) % bound; }

void ReplaceOne(Tally *tally, size_t size, unsigned count) {
  for (unsigned i = 0; i < count; i++) hakmem_free(tally->Allocate(size, i % kPlaces));
}

// The place is how many came before in one of `burst`.
void AllocateAndFreeInBursts(Tally *tally, size_t size, unsigned count, unsigned burst) {
  std::vector<void *> blocks(burst);
  for (unsigned i = 0; i < count; i += burst) {
    for (unsigned j = 0; j < burst; j++) blocks[j] = tally->Allocate(size, j * kPlaces / burst);
    for (void *block : blocks) hakmem_free(block);
  }
}

// The place is how many blocks live at that moment.
void WanderUpAndDown(Tally *tally, size_t size, unsigned count) {
  constexpr size_t kMost = 96;
  std::vector<void *> blocks;
  uint64_t random = size;
  for (unsigned i = 0; i < count;) {
    bool is_up = Below(&random, 2) == 0;
    for (uint64_t steps = Below(&random, kMost / 2); steps > 0 && i < count; steps--) {
      if (is_up && blocks.size() < kMost) {
        unsigned place = static_cast<unsigned>(blocks.size() * kPlaces / kMost);
        blocks.push_back(tally->Allocate(size, place));
        i++;
      } else if (!is_up && !blocks.empty()) {
        hakmem_free(blocks.back());
        blocks.pop_back();
      }
    }
  }
  for (void *block : blocks) hakmem_free(block);
}

// Blocks that another thread frees come back by remote frees. The place is how many came before in one hand-over.
void HandOver(Tally *tally, size_t size, unsigned count) {
  constexpr unsigned kBlocks = 400;
  std::vector<void *> blocks(kBlocks);
  for (unsigned i = 0; i < count; i += kBlocks) {
    for (unsigned j = 0; j < kBlocks; j++) {
      blocks[j] = tally->Allocate(size, j * kPlaces / kBlocks);
      if (j % 3 == 0) hakmem_free(tally->Allocate(size, j * kPlaces / kBlocks));
    }
    std::thread([&blocks] {
      for (void *block : blocks) hakmem_free(block);
    }).join();
  }
}

void ExpectTheSameChance(uint64_t rate, size_t scaled_count) {
  auto count = static_cast<unsigned>(scaled_count);
  hk_sampling_set_guard_rate(rate);
  double chance = 1.0 / static_cast<double>(rate);
  for (size_t size : kSizes) {
    Tally one, bursts, small_bursts, wandering, handed_over;
    ReplaceOne(&one, size, count);
    one.ExpectChance(chance, size, "one block again and again");
    AllocateAndFreeInBursts(&bursts, size, count, 100);
    bursts.ExpectChance(chance, size, "bursts of 100");
    AllocateAndFreeInBursts(&small_bursts, size, count, 12);
    small_bursts.ExpectChance(chance, size, "bursts of 12");
    WanderUpAndDown(&wandering, size, count);
    wandering.ExpectChance(chance, size, "up and down");
    HandOver(&handed_over, size, count / 4);
    handed_over.ExpectChance(chance, size, "freed by another thread");
  }
  hk_sampling_set_guard_rate(0);
  ASSERT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_misuse]), 0u);
}

HK_FRESH_TEST(GuardChance, IsTheSameWhereEachThirdIsChosen) { ExpectTheSameChance(3, Scaled(12000, 3200)); }
HK_FRESH_TEST(GuardChance, IsTheSameAtAMiddleRate) { ExpectTheSameChance(50, Scaled(60000, 16000)); }
HK_FRESH_TEST(GuardChance, IsTheSameWhereTheNextIsFar) { ExpectTheSameChance(2000, Scaled(400000, 80000)); }

HK_FRESH_TEST(GuardChance, EveryAllocationAtRateOne) {
  hk_sampling_set_guard_rate(1);
  for (size_t size : kSizes) {
    hakmem_free(hakmem_malloc(size));
    uint64_t before = Chosen();
    for (unsigned i = 0; i < 500; i++) hakmem_free(hakmem_malloc(size));
    EXPECT_EQ(Chosen() - before, 500u) << size;
  }
  hk_sampling_set_guard_rate(0);
}

}  // namespace
