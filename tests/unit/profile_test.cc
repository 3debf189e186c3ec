// The sampler as a whole over the fake OS, whose secret gives it the same random numbers each time: what becomes of sampled
// blocks, and how near the estimates are.
#include "profile/profile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "hakmem/hakmem.h"
#include "scale.h"
#include "unit/core_parts.h"

extern "C" {
#include "heap/cut.h"
}

namespace {

constexpr size_t kRate = 512 * HK_KIB;
static_assert(kRate == HK_SAMPLING_RATE_PACED, "the least at which a thread samples no more often than its pace");
constexpr size_t kSizes[] = {0,    1,     16,    100,    1000,       1024,   1025,
                             5000, 32768, 32769, 100000, HK_MIB - 8, HK_MIB, 3 * HK_MIB};

// Every block is sampled: with 16 bytes the chance that one is not is once in 9 million.
void StartForAll() { ASSERT_TRUE(hakmem_profile_start(1)); }

bool IsSampled(const void *block) { return hk_verify(block).offset != 0; }

size_t LiveSamples() {
  size_t count = 0;
  hk_profile_each_sample([](const hk_sample_t *, void *context) { ++*static_cast<size_t *>(context); }, &count);
  return count;
}

// By what was sampled: since the profile was started last, and in use.
uint64_t EstimatedBytes(bool is_in_use = false) {
  uint64_t sum = 0;
  for (const hk_site_t *site = hk_site_next(nullptr); site != nullptr; site = hk_site_next(site)) {
    hk_site_figures_t allocated, in_use;
    hk_site_read(site, &allocated, &in_use);
    sum += (is_in_use ? in_use : allocated).block_bytes;
  }
  return sum;
}

uint64_t Misuses() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_misuse]); }

bool IsFilled(const void *block, int byte, size_t bytes) {
  const char *text = static_cast<const char *>(block);
  return std::all_of(text, text + bytes, [byte](char found) { return found == static_cast<char>(byte); });
}

// Taken now while it runs, so that monitoring does not refuse what a server has told for hours; at its end when it has ended.
HK_FRESH_TEST(Profile, WhenItWasTaken) {
  constexpr uint64_t kSecond = 1000000000;
  fake_os_advance(7 * kSecond);
  ASSERT_TRUE(hk_profile_start(0));
  hk_profile_span_t start = hk_profile_span();
  EXPECT_EQ(start.taken_ns, start.time_ns);
  fake_os_advance(3600 * kSecond);
  hk_profile_span_t running = hk_profile_span();
  EXPECT_EQ(running.time_ns, start.time_ns);
  EXPECT_EQ(running.taken_ns, start.time_ns + 3600 * kSecond);
  EXPECT_EQ(running.duration_ns, 3600 * kSecond);
  EXPECT_TRUE(hk_profile_stop());
  fake_os_advance(50 * kSecond);
  EXPECT_EQ(hk_profile_span().taken_ns, running.taken_ns);
  EXPECT_EQ(hk_profile_span().duration_ns, running.duration_ns);
}

// ---- What becomes of a sampled block.

HK_FRESH_TEST(Profile, StartsAndStopsOnce) {
  EXPECT_FALSE(hk_profile_is_running());
  EXPECT_FALSE(hk_profile_stop());
  EXPECT_TRUE(hk_profile_start(0));
  EXPECT_TRUE(hk_profile_is_running());
  EXPECT_EQ(hk_profile_rate(), kRate) << "the option's default";
  EXPECT_FALSE(hk_profile_start(1));
  EXPECT_TRUE(hk_profile_stop());
  EXPECT_FALSE(hk_profile_is_running());
}

HK_FRESH_TEST(Profile, ASampledBlockIsABlock) {
  StartForAll();
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(IsSampled(block)) << size;
    EXPECT_TRUE(hakmem_check_owned(block)) << size;
    EXPECT_FALSE(hakmem_check_owned(static_cast<char *>(block) + 1)) << size;
    size_t usable = hakmem_malloc_usable_size(block);
    EXPECT_GE(usable, size);
    std::memset(block, 7, usable);
    EXPECT_EQ(LiveSamples(), 1u);
    hakmem_free(block);
    EXPECT_EQ(LiveSamples(), 0u);
    EXPECT_FALSE(hakmem_check_owned(block)) << size;
  }
  EXPECT_EQ(Misuses(), 0u);
  EXPECT_EQ(hk_profile_sums().samples, std::size(kSizes));
  EXPECT_GT(EstimatedBytes(), 3 * HK_MIB);
  EXPECT_EQ(EstimatedBytes(true), 0u);
}

HK_FRESH_TEST(Profile, ASecondFreeIsADoubleFree) {
  hk_option.on_misuse = hk_misuse_ignore;
  StartForAll();
  uint64_t misuses = 0;
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    hakmem_free(block);
    hk_verdict_t verdict = hk_verify(block).verdict;
    bool is_known = verdict == hk_verdict_free_block || verdict == hk_verdict_free_range;
    EXPECT_TRUE(is_known) << size << ": " << verdict;
    hakmem_free(block);
    EXPECT_EQ(Misuses(), ++misuses) << size;
  }
}

HK_FRESH_TEST(Profile, ClearedMemoryIsZero) {
  StartForAll();
  for (int round = 0; round < 3; round++) {
    for (size_t size : kSizes) {
      void *block = hakmem_calloc(1, size);
      ASSERT_TRUE(IsFilled(block, 0, size)) << size;
      std::memset(block, 0xa5, hakmem_malloc_usable_size(block));
      hakmem_free(block);
    }
  }
}

// Fresh and used memory, in blocks that are sampled and blocks that are not, in bins that are open and closed.
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroAmongUnsampled) {
  ASSERT_TRUE(hakmem_profile_start(2000));
  for (size_t size : {16u, 48u, 512u, 1024u, 3000u, 20000u}) {
    std::vector<void *> blocks;
    for (int i = 0; i < 3000; i++) {
      void *block = hakmem_calloc(1, size);
      ASSERT_TRUE(IsFilled(block, 0, size)) << size << ", " << i;
      std::memset(block, 0xa5, size);
      blocks.push_back(block);
      if (i % 3 != 0) continue;
      hakmem_free(blocks[i / 2]);
      blocks[i / 2] = nullptr;
    }
    for (void *block : blocks) hakmem_free(block);
  }
}

// A span that a heap without a thread took a block back into moves to a heap whose blocks are sampled, and is cut on.
void ExpectZeroInStolenSpans(size_t rate) {
  SCOPED_TRACE(rate);
  ASSERT_TRUE(hakmem_profile_start(rate));
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) (void)hakmem_malloc(hk_class_bytes(i));
  std::thread([] {
    for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
      void *block = hakmem_malloc(hk_class_bytes(i));
      std::memset(block, 0xa5, hk_class_bytes(i));
      hakmem_free(block);
    }
  }).join();
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    size_t bytes = hk_class_bytes(i);
    for (size_t count = 2 * HK_SLAB_BYTES / bytes; count > 0; count--) {
      ASSERT_TRUE(IsFilled(hakmem_calloc(1, bytes), 0, bytes)) << bytes << ", the last but " << count;
    }
  }
  EXPECT_TRUE(hakmem_profile_stop());
}
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroInAStolenSpan1500) { ExpectZeroInStolenSpans(1500); }
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroInAStolenSpan4096) { ExpectZeroInStolenSpans(4096); }
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroInAStolenSpan32768) { ExpectZeroInStolenSpans(32768); }

HK_FRESH_TEST(Profile, AlignedBlocksAreAligned) {
  StartForAll();
  for (size_t alignment = 16; alignment <= 4 * HK_MIB; alignment *= 2) {
    for (size_t size : kSizes) {
      char *block = static_cast<char *>(hakmem_aligned_alloc(alignment, size));
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << size;
      EXPECT_TRUE(IsSampled(block)) << size << " at " << alignment;
      EXPECT_GE(hakmem_malloc_usable_size(block), size);
      std::memset(block, 1, size);
      block = static_cast<char *>(hakmem_realloc(block, size + 1));
      EXPECT_TRUE(IsFilled(block, 1, size)) << size << " at " << alignment;
      hakmem_free(block);
    }
  }
  EXPECT_EQ(Misuses(), 0u);
  EXPECT_EQ(LiveSamples(), 0u);
}

HK_FRESH_TEST(Profile, ReallocKeepsContents) {
  StartForAll();
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      if (to == 0) continue;
      char *block = static_cast<char *>(hakmem_malloc(from));
      std::memset(block, 3, from);
      block = static_cast<char *>(hakmem_realloc(block, to));
      ASSERT_TRUE(IsFilled(block, 3, std::min(from, to))) << from << " to " << to;
      EXPECT_GE(hakmem_malloc_usable_size(block), to);
      EXPECT_TRUE(IsSampled(block)) << from << " to " << to;
      EXPECT_EQ(LiveSamples(), 1u);
      hakmem_free(block);
      ASSERT_EQ(LiveSamples(), 0u);
    }
  }
  EXPECT_EQ(Misuses(), 0u);
}

// A big block's pages move, and its sample with it.
HK_FRESH_TEST(Profile, ABigBlockThatGrowsIsNotCopied) {
  StartForAll();
  char *block = static_cast<char *>(hakmem_malloc(3 * HK_MIB));
  std::memset(block, 3, 3 * HK_MIB);
  uint64_t in_place = hk_load_relaxed(&hk_stat_process.value[hk_stat_realloc_in_place]);
  block = static_cast<char *>(hakmem_realloc(block, 64 * HK_MIB));
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_realloc_in_place]), in_place + 1);
  EXPECT_TRUE(IsFilled(block, 3, 3 * HK_MIB));
  size_t bytes = 0;
  hk_profile_each_sample([](const hk_sample_t *sample,
                            void *context) { *static_cast<size_t *>(context) += sample->weight.requested_bytes; },
                         &bytes);
  EXPECT_EQ(bytes, 64 * HK_MIB);
  hakmem_free(block);
}

HK_FRESH_TEST(Profile, OutlivesItsStop) {
  StartForAll();
  std::vector<char *> blocks;
  for (size_t size : kSizes) blocks.push_back(static_cast<char *>(hakmem_malloc(size)));
  ASSERT_TRUE(hakmem_profile_stop());
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    EXPECT_FALSE(IsSampled(block)) << size;
    hakmem_free(block);
  }
  EXPECT_EQ(LiveSamples(), std::size(kSizes));
  for (char *block : blocks) {
    EXPECT_TRUE(hakmem_check_owned(block));
    hakmem_free(hakmem_realloc(block, hakmem_malloc_usable_size(block) + 1));
  }
  EXPECT_EQ(LiveSamples(), 0u);
  EXPECT_EQ(Misuses(), 0u);
}

HK_FRESH_TEST(Profile, AnotherThreadFreesWhatWasSampled) {
  StartForAll();
  std::vector<void *> blocks;
  for (int i = 0; i < 2000; i++) blocks.push_back(hakmem_malloc(kSizes[i % 10]));
  std::thread([&blocks] {
    for (void *block : blocks) hakmem_free(block);
  }).join();
  EXPECT_EQ(LiveSamples(), 0u);
  EXPECT_EQ(Misuses(), 0u);
  (void)hakmem_profile_stop();
  (void)hakmem_collect();
  EXPECT_LE(hk_superslab_usage().in_use_bytes, 2 * HK_SUPERSLAB_BYTES) << "all came home";
}

// A thread that ends leaves nothing where nobody else would find it; what it had is used and given back as ever.
HK_FRESH_TEST(Profile, AThreadThatEndsLeavesNothingBehind) {
  ASSERT_TRUE(hakmem_profile_start(kRate));
  for (int round = 0; round < 50; round++) {
    std::thread([round] {
      std::vector<void *> blocks;
      for (int i = 0; i < 3000; i++) blocks.push_back(hakmem_malloc((i * 37 + round) % 6000));
      for (void *block : blocks) hakmem_free(block);
      hk_thread_on_exit();
    }).join();
    for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) {
      if (hk_heap_life(heap) != hk_heap_idle || !hk_heap_is_sampled(heap)) continue;
      for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
        if (hk_heap_home(heap, i) != &heap->bin[i]) ASSERT_EQ(heap->bin[i].free, HK_LIST_END) << i;
      }
    }
  }
  (void)hakmem_collect();
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
}

// Lists, sinks and counts are where they were before.
HK_FRESH_TEST(Profile, AHeapIsAsBeforeWhenItIsStopped) {
  std::vector<void *> blocks;
  for (int i = 0; i < 20000; i++) blocks.push_back(hakmem_malloc(i * 7 % 9000));
  for (int round = 0; round < 10; round++) {
    ASSERT_TRUE(hakmem_profile_start(round % 2 == 0 ? 3000 : kRate));
    for (int i = 0; i < 20000; i += 1 + round) {
      hakmem_free(blocks[i]);
      blocks[i] = hakmem_malloc((i + round) * 7 % 9000);
    }
    ASSERT_TRUE(hakmem_profile_stop());
    hk_heap_t *heap = hk_thread_own();
    EXPECT_FALSE(hk_heap_is_sampled(heap));
    for (void *block : blocks) {
      const hk_slab_t *span = hk_slab_of(block)->head;
      bool leads_home = span->sink == &heap->bin[span->class_index];
      if (hk_class_is_mid(span->class_index)) ASSERT_TRUE(leads_home);
      if (!leads_home) ASSERT_EQ(span->sink, &span->own);
#if HK_DEBUG
      hk_span_check(heap, span);
#endif
    }
  }
  for (void *block : blocks) hakmem_free(block);
  (void)hakmem_collect();
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u) << "no block was lost";
  EXPECT_EQ(Misuses(), 0u);
}

HK_FRESH_TEST(Profile, AChildOfForkGoesOn) {
  StartForAll();
  void *block = hakmem_malloc(100);
  EXPECT_EQ(hk_test::InChild([block] {
              void *more = hakmem_malloc(100);
              bool right = IsSampled(more) && LiveSamples() == 2;
              hakmem_free(block);
              hakmem_free(more);
              return right && LiveSamples() == 0 && Misuses() == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(LiveSamples(), 1u);
  hakmem_free(block);
}

// Where the sampled block cannot be had, an ordinary one can.
HK_FRESH_TEST(Profile, WithoutRoomForSamplesThereAreBlocks) {
  void *first = hakmem_malloc(100);
  StartForAll();
  void *other = hakmem_malloc(100); /* the heap's part, and a table */
  fake_os_fail_all(fake_os_reserve, true);
  size_t unsampled = 0;
  for (int i = 0; i < 300; i++) unsampled += !IsSampled(hakmem_malloc(100));
  for (int i = 0; i < 300; i++) unsampled += !IsSampled(hakmem_malloc(100));
  EXPECT_GT(unsampled, 0u);
  EXPECT_GT(hk_profile_sums().lost, 0u);
  hakmem_free(first);
  hakmem_free(other);
  EXPECT_EQ(Misuses(), 0u);
}

// ---- How near the estimates are. Each expected count of samples n has the standard deviation sqrt(n) at most: five and a half
// of them are exceeded less than once in ten million.

constexpr double kDeviations = 5.5;

// As good as the default, and each sample is taken however often they come.
constexpr size_t kEachRate = kRate - 1;

// What the live blocks of one size are estimated to have.
struct Estimate {
  size_t requested;
  double bytes;
};

double EstimateLive(size_t requested) {
  Estimate estimate = {requested, 0};
  hk_profile_each_sample(
      [](const hk_sample_t *sample, void *context) {
        auto *sum = static_cast<Estimate *>(context);
        if (sample->weight.requested_bytes != sum->requested) return;
        sum->bytes +=
            static_cast<double>(sample->weight.block_bytes) * static_cast<double>(sample->weight.weight_q16) / 65536;
      },
      &estimate);
  return estimate.bytes;
}

double Chance(size_t size) { return hk_sampling_chance(hakmem_good_size(size), kEachRate); }

// The relative bound for the mean over so many blocks: the deviation of one is sqrt((1 - p) / p).
double BoundFor(size_t size, double blocks) {
  double chance = Chance(size);
  return kDeviations * std::sqrt((1 - chance) / (chance * blocks)) + 1e-4;
}

HK_FRESH_TEST(Profile, LiveBytesAreEstimatedWithoutBias) {
  constexpr size_t kSites[] = {16, 90, 400, 1000, 2000, 9000, 32000, 100000, 700000, 10 * HK_MIB};
  const size_t bytes = hakmem_test::Scaled(76 * HK_MIB, 2 * HK_MIB);
  constexpr int kRuns = 20;
  double error_sum = 0, bound_square_sum = 0;
  for (size_t size : kSites) {
    size_t good = hakmem_good_size(size);
    size_t count = std::max<size_t>(bytes / good, 3);
    double estimate = 0;
    for (int run = 0; run < kRuns; run++) {
      ASSERT_TRUE(hakmem_profile_start(kEachRate));
      void *last = nullptr;
      for (size_t i = 0; i < count; i++) {
        void **block = static_cast<void **>(hakmem_malloc(size));
        *block = last;
        last = block;
      }
      estimate += EstimateLive(size);
      while (last != nullptr) {
        void *block = last;
        last = *static_cast<void **>(last);
        hakmem_free(block);
      }
      ASSERT_EQ(LiveSamples(), 0u);
      ASSERT_TRUE(hakmem_profile_stop());
    }
    double error = estimate / (static_cast<double>(count * good) * kRuns) - 1;
    double bound = BoundFor(size, static_cast<double>(count) * kRuns);
    EXPECT_LE(std::fabs(error), bound) << size;
    if (hakmem_test::Scale() >= 1) EXPECT_LE(bound, 0.11) << "the test would notice one of 10%";
    error_sum += error;
    bound_square_sum += bound * bound;
    if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("%zu: %+.4f of %.4f\n", size, error, bound);
  }
  EXPECT_LE(std::fabs(error_sum), std::sqrt(bound_square_sum)) << "the mean of all";
  if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("mean: %+.4f\n", error_sum / std::size(kSites));
}

// One block that is freed and handed out again and again, with others beside it.
HK_FRESH_TEST(Profile, OneBlockThatIsReusedCountsEachTime) {
  for (size_t held : {0u, 3u, 200u}) {
    for (size_t size : {16u, 64u, 1000u, 2000u, 30000u, 100000u, 2097152u}) {
      if (size > 100000 && held > 3) continue;
      std::vector<void *> others;
      while (others.size() < held) others.push_back(hakmem_malloc(size));
      size_t good = hakmem_good_size(size);
      size_t count = hakmem_test::Scaled(2000 * kRate / good, 1000);
      ASSERT_TRUE(hakmem_profile_start(kEachRate));
      for (size_t i = 0; i < count; i++) hakmem_free(hakmem_malloc(size));
      ASSERT_TRUE(hakmem_profile_stop());
      double estimate = static_cast<double>(EstimatedBytes());
      double error = estimate / static_cast<double>(count * good) - 1;
      EXPECT_LE(std::fabs(error), BoundFor(size, static_cast<double>(count))) << size << ", " << held << " held";
      if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("%zu beside %zu: %+.4f\n", size, held, error);
      for (void *block : others) hakmem_free(block);
    }
  }
}

// The fake clock stands still: after what a thread may spend at once, points lie as far apart as they ever do.
HK_FRESH_TEST(Profile, AtAPaceThereAreFewerSamplesThatStandForMore) {
  for (size_t held : {0u, 3u}) {
    for (size_t size : {1000u, 30000u}) {
      std::vector<void *> others;
      while (others.size() < held) others.push_back(hakmem_malloc(size));
      size_t good = hakmem_good_size(size);
      size_t count = hakmem_test::Scaled(64000 * kRate / good, 1000);
      uint64_t before = hk_profile_sums().samples;
      ASSERT_TRUE(hakmem_profile_start(kRate));
      for (size_t i = 0; i < count; i++) hakmem_free(hakmem_malloc(size));
      ASSERT_TRUE(hakmem_profile_stop());
      double estimate = static_cast<double>(EstimatedBytes());
      double error = estimate / static_cast<double>(count * good) - 1;
      double rarest = static_cast<double>(count) / (1 << HK_SAMPLING_SHIFT_MOST);
      EXPECT_LE(std::fabs(error), BoundFor(size, rarest)) << size << ", " << held << " held";
      double each = Chance(size) * static_cast<double>(count);
      double samples = static_cast<double>(hk_profile_sums().samples - before);
      if (hakmem_test::Scale() >= 1) EXPECT_LT(samples, each / 8) << size << ", " << held << " held";
      for (void *block : others) hakmem_free(block);
    }
  }
}

// The same at each point, but now and then one is kept, so that lists run out a few times between two samples.
HK_FRESH_TEST(Profile, ReuseCountsWhileListsRunOut) {
  for (size_t size : {64u, 1000u, 3000u}) {
    size_t count = hakmem_test::Scaled(3000 * kRate / hakmem_good_size(size), 1000);
    std::vector<void *> kept;
    ASSERT_TRUE(hakmem_profile_start(kEachRate));
    for (size_t i = 0; i < count; i++) {
      void *block = hakmem_malloc(size);
      if (i % 60 != 0) {
        hakmem_free(block);
        continue;
      }
      kept.push_back(block);
      if (kept.size() < 10000) continue;
      for (void *old : kept) hakmem_free(old);
      kept.clear();
    }
    ASSERT_TRUE(hakmem_profile_stop());
    for (void *old : kept) hakmem_free(old);
    double estimate = static_cast<double>(EstimatedBytes());
    double error = estimate / static_cast<double>(count * hakmem_good_size(size)) - 1;
    EXPECT_LE(std::fabs(error), BoundFor(size, static_cast<double>(count))) << size;
    if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("%zu, some kept: %+.4f\n", size, error);
  }
}

// Large blocks that change their size where they are.
HK_FRESH_TEST(Profile, BlocksThatGrowCountAsWhatTheyAre) {
  const size_t count = hakmem_test::Scaled(4000, 200);
  for (auto [from, to] :
       {std::pair<size_t, size_t>{70000, 900000}, {900000, 70000}, {1500000, 2500000}, {2500000, 1200000}}) {
    double estimate = 0;
    ASSERT_TRUE(hakmem_profile_start(kEachRate));
    for (size_t i = 0; i < count; i++) {
      void *block = hakmem_realloc(hakmem_malloc(from), to);
      estimate += EstimateLive(to);
      hakmem_free(block);
    }
    ASSERT_TRUE(hakmem_profile_stop());
    double error = estimate / static_cast<double>(count * hakmem_good_size(to)) - 1;
    EXPECT_LE(std::fabs(error), BoundFor(to, static_cast<double>(count))) << from << " to " << to;
  }
}

}  // namespace
