/* tests/model/model_test.cc - random operations against the shadow model: 10^7 of them at scale 1.
 *
 * Each profile is one mix of sizes and one number of live blocks. The load swells and shrinks in phases, so that memory
 * is given back and taken again on the way. A failure's message names the profile, the operation and the seed;
 * HAKMEM_TEST_SEED and the profile's name as --gtest_filter repeat it exactly.
 */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <string>

#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

struct Profile {
  const char *name;
  size_t operations; /* at scale 1 */
  size_t live_blocks;
  size_t live_bytes;
  /* Of 1,000 sizes, how many are of each band; the rest are tiny. */
  unsigned mid, run, big;
  /* Of 1,000 operations, how many are of each kind; the rest are malloc and free. */
  unsigned calloc, realloc, aligned;
};

/* GoogleTest would print the bytes. */
void PrintTo(const Profile &profile, std::ostream *out) { *out << profile.name; }

const Profile kProfiles[] = {
    {"Tiny", 5000000, 20000, 200 * kMiB, 0, 0, 0, 50, 50, 10},
    {"FewTinyBlocks", 1500000, 50, 200 * kMiB, 0, 0, 0, 100, 50, 10},
    {"TinyAndMid", 3000000, 12000, 100 * kMiB, 250, 0, 0, 60, 80, 20},
    {"Mid", 900000, 4000, 100 * kMiB, 1000, 0, 0, 60, 80, 20},
    {"EveryBand", 1000000, 3000, 150 * kMiB, 250, 30, 4, 60, 100, 20},
    {"RunAndBig", 50000, 250, 200 * kMiB, 100, 700, 200, 100, 250, 50},
    {"Realloc", 500000, 1000, 150 * kMiB, 300, 60, 6, 20, 700, 10},
    {"Aligned", 400000, 2000, 150 * kMiB, 250, 20, 2, 20, 50, 600},
    {"Calloc", 400000, 1500, 100 * kMiB, 300, 30, 3, 700, 50, 10},
};

class ModelRun {
 public:
  explicit ModelRun(const Profile &profile, bool is_sampled = false)
      : profile_(profile), random_(SeedFor(profile.name)), is_sampled_(is_sampled) {}

  /* False when the contract was broken; problem() says how. */
  bool Run() {
    size_t operations = Scaled(profile_.operations, 1000);
    for (; done_ < operations; done_++) {
      if (phase_left_ == 0) NextPhase();
      phase_left_--;
      if (!Step()) return false;
    }
    while (model_.count() > 0) {
      if (!Free(model_.count() - 1)) return false;
    }
    return true;
  }

  size_t done() const { return done_; }

  std::string problem() const {
    char where[120];
    std::snprintf(where, sizeof where, "operation %zu of %s, HAKMEM_TEST_SEED=0x%llx: ", done_, profile_.name,
                  static_cast<unsigned long long>(TestSeed()));
    return where + (problem_.empty() ? model_.problem() : problem_);
  }

 private:
  /* A phase has a number of blocks that it moves towards; every fourth goes far down, every eighth ends in
   * a collect. */
  void NextPhase() {
    phase_++;
    phase_left_ = random_.Between(profile_.live_blocks / 2 + 1, profile_.live_blocks * 4);
    target_ = phase_ % 4 == 3 ? random_.Below(profile_.live_blocks / 20 + 1) : random_.Below(profile_.live_blocks) + 1;
    if (phase_ % 8 == 4) hakmem_collect();
    if (phase_ % 16 == 8) hakmem_malloc_trim(random_.Below(4 * kMiB));
    if (phase_ % 4 == 0) hot_size_ = PlainSize();
  }

  size_t PlainSize() {
    size_t draw = random_.Below(1000);
    if (draw < profile_.big) return random_.LogBetween(kRunMax + 1, 8 * kMiB);
    draw -= profile_.big;
    if (draw < profile_.run) return random_.LogBetween(kMidMax + 1, kRunMax);
    draw -= profile_.run;
    if (draw < profile_.mid) return random_.LogBetween(kTinyMax + 1, kMidMax);
    return random_.OneIn(2) ? random_.LogBetween(0, kTinyMax) : random_.Below(kTinyMax + 1);
  }

  /* Programs ask for the same size again and again, and mistakes live at the edges. */
  size_t Size() {
    size_t kind = random_.Below(16);
    if (kind < 4) return hot_size_;
    size_t size = PlainSize();
    if (kind == 4) {
      size_t edge = hakmem_good_size(size) + random_.Below(3);
      return edge > 0 ? edge - 1 : 0;
    }
    return size;
  }

  bool Step() {
    size_t draw = random_.Below(1000);
    bool full = model_.count() >= profile_.live_blocks * 2 || model_.live_bytes() >= profile_.live_bytes;
    if (!full && draw < profile_.realloc && model_.count() > 0) return Realloc(random_.Below(model_.count()));
    if (draw >= 995) return Look();
    /* Towards the target, with noise around it. */
    bool grow = model_.count() < target_ ? random_.Below(8) < 5 : random_.Below(8) < 3;
    if (model_.count() == 0 || (grow && !full)) {
      size_t kind = random_.Below(1000);
      if (kind < profile_.calloc) return Calloc();
      if (kind < profile_.calloc + profile_.aligned) return Aligned();
      return Malloc();
    }
    /* The newest, the oldest, any: stacks, queues and heaps of objects. */
    size_t victim = random_.Below(model_.count());
    if (random_.OneIn(4)) victim = model_.count() - 1;
    return Free(victim);
  }

  bool Malloc() {
    if (random_.OneIn(20000)) return Impossible();
    size_t size = Size();
    void *block = hakmem_malloc(size);
    if (block == nullptr) return Fail("malloc gave NULL", size);
    size_t usable = hakmem_malloc_usable_size(block);
    size_t good = hakmem_good_size(size);
    bool is_right = is_guarded_ ? usable >= size : is_sampled_ ? usable >= good : usable == good;
    if (random_.OneIn(16) && !is_right) return Fail("good_size is not what malloc gives", size);
    return model_.Add(block, size, usable, 16);
  }

  bool Calloc() {
    size_t size = Size(), count = 1;
    if (size > 0 && random_.OneIn(2)) {
      count = random_.Below(8) + 1;
      size = size / count;
    }
    void *block = hakmem_calloc(count, size);
    if (block == nullptr) return Fail("calloc gave NULL", size * count);
    return model_.Add(block, size * count, hakmem_malloc_usable_size(block), 16, ShadowModel::Contents::kZero);
  }

  bool Aligned() {
    size_t size = Size();
    size_t alignment = size_t{1} << random_.Below(random_.OneIn(50) ? 23 : 14);
    void *block = nullptr;
    switch (random_.Below(4)) {
      case 3:
        block = hakmem_aligned_calloc(alignment, 1, size);
        if (block == nullptr) return Fail("an aligned block was NULL", alignment);
        return model_.Add(block, size, hakmem_malloc_usable_size(block), alignment, ShadowModel::Contents::kZero);
      case 0:
        block = hakmem_aligned_alloc(alignment, size);
        break;
      case 1:
        block = hakmem_memalign(alignment, size);
        break;
      default:
        if (alignment < sizeof(void *)) alignment = sizeof(void *);
        if (hakmem_posix_memalign(&block, alignment, size) != 0) block = nullptr;
    }
    if (block == nullptr) return Fail("an aligned block was NULL", alignment);
    return model_.Add(block, size, hakmem_malloc_usable_size(block), alignment);
  }

  bool Realloc(size_t index) {
    if (!model_.Check(index)) return false;
    char *start = model_.at(index).start;
    size_t old = model_.at(index).requested, size = 0;
    switch (random_.Below(8)) {
      case 0:
        size = old + 1;
        break;
      case 1:
        size = old - old / 8;
        break;
      case 2:
        size = old / 2;
        break;
      case 3:
        size = model_.at(index).usable + random_.Below(3) - 1;
        break;
      case 4:
        size = old + old / 2;
        break;
      case 5:
        size = old * 2;
        break;
      default:
        size = Size();
    }
    if (size > 16 * kMiB) size = Size();
    if (random_.OneIn(5000)) {
      errno = 0;
      if (hakmem_realloc(start, SIZE_MAX - random_.Below(1 << 20)) != nullptr || errno != ENOMEM) {
        return Fail("an impossible realloc succeeded, or not with ENOMEM", old);
      }
      return model_.Check(index, hakmem_malloc_usable_size(start));
    }
    if (size == 0) {
      if (!model_.Remove(index)) return false;
      return hakmem_realloc(start, 0) == nullptr || Fail("realloc to 0 gave a block", old);
    }
    size_t alignment = random_.OneIn(2) ? model_.at(index).alignment : 16;
    void *moved = alignment > 16 ? hakmem_aligned_realloc(start, alignment, size) : hakmem_realloc(start, size);
    if (moved == nullptr) return Fail("realloc gave NULL", size);
    return model_.Replace(index, moved, size, hakmem_malloc_usable_size(moved), alignment);
  }

  bool Free(size_t index) {
    ShadowModel::Block block = model_.at(index);
    if (!model_.Remove(index)) return false;
    switch (random_.Below(16)) {
      case 0: /* undefined for a block that was requested with an alignment */
        if (block.alignment <= 16) {
          hakmem_free_sized(block.start, block.requested);
          break;
        }
        [[fallthrough]];
      case 1:
        hakmem_free_aligned_sized(block.start, block.alignment, block.requested);
        break;
      default:
        hakmem_free(block.start);
    }
    return true;
  }

  /* Asks, and changes nothing. */
  bool Look() {
    if (model_.count() == 0) return true;
    size_t index = random_.Below(model_.count());
    const ShadowModel::Block &block = model_.at(index);
    if (!hakmem_check_owned(block.start)) return Fail("a live block is not owned", block.requested);
    if (block.usable > 1 && hakmem_check_owned(block.start + 1 + random_.Below(block.usable - 1))) {
      return Fail("the inside of a block is owned", block.requested);
    }
    return model_.Check(index, hakmem_malloc_usable_size(block.start));
  }

  bool Impossible() {
    size_t size = SIZE_MAX - random_.LogBetween(0, SIZE_MAX / 2);
    errno = 0;
    if (hakmem_malloc(size) == nullptr && errno == ENOMEM) return true;
    return Fail("an impossible malloc succeeded, or not with ENOMEM", size);
  }

  bool Fail(const char *what, size_t detail) {
    problem_ = what + std::string(" (") + std::to_string(detail) + ")";
    return false;
  }

  const Profile &profile_;
  TestRandom random_;
  bool is_sampled_; /* by the heap profile: a block may have more than others of its size */
  bool is_guarded_ = std::getenv("HAKMEM_GUARD") != nullptr; /* a guarded block has the requested size */
  ShadowModel model_;
  std::string problem_;
  size_t done_ = 0;
  size_t phase_ = 0, phase_left_ = 0, target_ = 0;
  size_t hot_size_ = 48;
};

/* By the option: no test starts or stops it then. */
bool ProfileRunsAlways() { return std::getenv("HAKMEM_PROFILE") != nullptr; }

class Model : public testing::TestWithParam<Profile> {};

TEST_P(Model, HoldsTheContract) {
  ModelRun run(GetParam(), ProfileRunsAlways());
  ASSERT_TRUE(run.Run()) << run.problem();
  std::printf("%zu operations\n", run.done());
}

/* While some of the blocks are sampled: nearly all, many, few. */
TEST_P(Model, HoldsTheContractWhileTheHeapProfileRuns) {
  if (ProfileRunsAlways()) GTEST_SKIP() << "HAKMEM_PROFILE is set";
  Profile profile = GetParam();
  profile.operations /= 10;
  for (size_t rate : {size_t{64}, 4 * kKiB, 512 * kKiB}) {
    ASSERT_TRUE(hakmem_profile_start(rate));
    ModelRun run(profile, true);
    EXPECT_TRUE(run.Run()) << run.problem() << ", at " << rate;
    ASSERT_TRUE(hakmem_profile_stop());
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, Model, testing::ValuesIn(kProfiles),
                         [](const auto &profile) { return std::string(profile.param.name); });

/* The claim of the CI tier. */
TEST(ModelSize, ProfilesMakeTenMillionOperations) {
  size_t total = 0;
  for (const Profile &profile : kProfiles) total += profile.operations;
  EXPECT_GE(total, 10000000u);
}

} /* namespace */
