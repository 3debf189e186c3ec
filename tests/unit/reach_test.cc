// inspect/reach: the blocks that words lead to, through blocks of every band; and words that are no pointers to a
// block.
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

extern "C" {
#include "inspect/reach.h"
#include "space/large.h"
#include "space/run.h"
}

using namespace hk_test;

namespace {

constexpr uint64_t kLongMs = 60000;

uintptr_t AddressOf(const void *block) { return reinterpret_cast<uintptr_t>(block); }

void *Zeroed(void *block, size_t bytes) {
  if (block != nullptr) std::memset(block, 0, bytes);
  return block;
}

void *Small(hk_heap_t *heap, unsigned class_index) {
  return Zeroed(Alloc(heap, class_index), hk_class_bytes(class_index));
}

void *Big(size_t bytes) {
  bool is_zero;
  return Zeroed(hk_large_alloc(bytes, HK_BLOCK_ALIGNMENT, &is_zero), bytes);
}

void *Run(size_t bytes) {
  bool is_zero;
  return Zeroed(hk_run_alloc(bytes, HK_BLOCK_ALIGNMENT, &is_zero), bytes);
}

// Makes the word at `offset` of a block lead to another.
void Point(void *from, size_t offset, const void *to) {
  uintptr_t value = AddressOf(to);
  std::memcpy(static_cast<char *>(from) + offset, &value, sizeof value);
}

// Scans from these words alone.
class Scan {
 public:
  explicit Scan(const std::vector<uintptr_t> &roots) {
    EXPECT_TRUE(hk_reach_begin(&reach, kLongMs, nullptr));
    Follow(roots);
  }
  ~Scan() { hk_reach_end(&reach); }
  Scan(const Scan &) = delete;
  Scan &operator=(const Scan &) = delete;

  void Follow(const std::vector<uintptr_t> &roots) {
    hk_reach_from(&reach, reinterpret_cast<uintptr_t>(roots.data()), roots.size() * sizeof roots[0]);
  }
  hk_reach_answer_t Has(const void *block) const { return hk_reach_has(&reach, AddressOf(block)); }

  hk_reach_t reach;
};

HK_FRESH_TEST(Reach, AListIsReachedByItsHeadAlone) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<void *> kept, lost;
  for (int i = 0; i < 1000; i++) {
    kept.push_back(Small(heap, 4));
    lost.push_back(Small(heap, 4));
    if (i > 0) Point(kept[i - 1], 8, kept[i]);
    if (i > 0) Point(lost[i - 1], 16, lost[i]);
  }
  Scan scan({AddressOf(kept[0])});
  for (void *block : kept) EXPECT_EQ(scan.Has(block), hk_reach_yes);
  for (void *block : lost) EXPECT_EQ(scan.Has(block), hk_reach_no);
  EXPECT_EQ(scan.reach.blocks_reached, kept.size());
  EXPECT_FALSE(scan.reach.is_cut_short);
}

HK_FRESH_TEST(Reach, ARingWithoutAPointerToItIsNotReached) {
  hk_heap_t *heap = hk_heap_take();
  void *a = Small(heap, 7), *b = Small(heap, 7), *other = Small(heap, 7);
  Point(a, 0, b);
  Point(b, 0, a);
  Scan scan({AddressOf(other)});
  EXPECT_EQ(scan.Has(a), hk_reach_no);
  EXPECT_EQ(scan.Has(b), hk_reach_no);
  scan.Follow({AddressOf(b)});
  EXPECT_EQ(scan.Has(a), hk_reach_yes);
  EXPECT_EQ(scan.Has(b), hk_reach_yes);
}

HK_FRESH_TEST(Reach, ThroughAllBandsByInsidesAndLastWords) {
  hk_heap_t *heap = hk_heap_take();
  unsigned mid = hk_class_of(20000);
  size_t mid_bytes = hk_class_bytes(mid), run_bytes = 5 * HK_SLAB_BYTES, big_bytes = 3 * HK_MIB;
  void *big = Big(big_bytes), *run = Run(run_bytes), *tiny = Small(heap, 1), *end = Small(heap, 1);
  void *middle = Small(heap, mid), *lost_big = Big(big_bytes), *lost_run = Run(run_bytes);
  Point(big, big_bytes - 8, static_cast<char *>(run) + run_bytes - 1);
  Point(run, run_bytes - 8, static_cast<char *>(middle) + mid_bytes - 1);
  Point(middle, mid_bytes - 8, static_cast<char *>(tiny) + 15);
  Point(tiny, 8, end);
  Point(lost_big, 0, lost_run);
  Scan scan({AddressOf(big) + 2 * HK_MIB});
  for (void *block : {big, run, middle, tiny, end}) EXPECT_EQ(scan.Has(block), hk_reach_yes);
  EXPECT_EQ(scan.Has(lost_big), hk_reach_no);
  EXPECT_EQ(scan.Has(lost_run), hk_reach_no);
}

HK_FRESH_TEST(Reach, AFreeBlockLeadsNowhere) {
  hk_heap_t *heap = hk_heap_take();
  void *freed = Small(heap, 8), *behind = Small(heap, 8), *last = Small(heap, 8);
  Point(freed, 64, behind);
  Point(behind, 64, last);
  (void)FreeOwn(heap, freed);
  Scan scan({AddressOf(freed)});
  EXPECT_EQ(scan.Has(behind), hk_reach_no);
  EXPECT_EQ(scan.Has(last), hk_reach_no);
}

HK_FRESH_TEST(Reach, WhatTheProgramDoesNotHaveOfABlockLeadsNowhere) {
  hk_heap_t *heap = hk_heap_take();
  void *small = Small(heap, 8), *big = Big(3 * HK_MIB), *stale = Small(heap, 8), *real = Small(heap, 8);
  Point(small, 0, stale);
  Point(big, HK_KIB - 8, stale);
  Point(big, HK_KIB, real);
  hk_reach_t reach;
  ASSERT_TRUE(hk_reach_begin(&reach, kLongMs, nullptr));
  hk_reach_narrow(&reach, AddressOf(small) + 16);
  hk_reach_narrow(&reach, AddressOf(big) + HK_KIB);
  uintptr_t roots[] = {AddressOf(small), AddressOf(big)};
  hk_reach_from(&reach, AddressOf(roots), sizeof roots);
  EXPECT_EQ(hk_reach_has(&reach, AddressOf(stale)), hk_reach_no);
  EXPECT_EQ(hk_reach_has(&reach, AddressOf(real)), hk_reach_yes);
  EXPECT_EQ(hk_reach_has(&reach, AddressOf(small) + 16), hk_reach_yes);
  hk_reach_end(&reach);
}

// The words are counted from where the program's part begins.
HK_FRESH_TEST(Reach, ABlockOfWhichTheProgramHasAPartEndsWhereItEnds) {
  hk_heap_t *heap = hk_heap_take();
  size_t bytes = hk_class_bytes(8);
  void *small = Small(heap, 8), *next = Small(heap, 8), *by_last_word = Small(heap, 8), *by_next = Small(heap, 8);
  ASSERT_EQ(AddressOf(next), AddressOf(small) + bytes);
  Point(small, bytes - 8, by_last_word);
  Point(next, 0, by_next);
  hk_reach_t reach;
  ASSERT_TRUE(hk_reach_begin(&reach, kLongMs, nullptr));
  hk_reach_narrow(&reach, AddressOf(small) + 16);
  uintptr_t root = AddressOf(small);
  hk_reach_from(&reach, AddressOf(&root), sizeof root);
  EXPECT_EQ(hk_reach_has(&reach, AddressOf(by_last_word)), hk_reach_yes);
  EXPECT_EQ(hk_reach_has(&reach, AddressOf(by_next)), hk_reach_no);
  hk_reach_end(&reach);
}

HK_FRESH_TEST(Reach, WhatIsNoBlockIsUnknown) {
  hk_heap_t *heap = hk_heap_take();
  void *block = Small(heap, 4);
  char *slab_end = reinterpret_cast<char *>((AddressOf(block) | (HK_SLAB_BYTES - 1)) - 15);
  int on_stack = 0;
  Scan scan({AddressOf(&on_stack), 0, 1, UINTPTR_MAX, AddressOf(slab_end)});
  EXPECT_EQ(scan.Has(&on_stack), hk_reach_unknown);
  EXPECT_EQ(scan.Has(nullptr), hk_reach_unknown);
  EXPECT_EQ(scan.Has(slab_end), hk_reach_unknown) << "no block is carved there yet";
  EXPECT_EQ(scan.Has(block), hk_reach_no);
  EXPECT_EQ(scan.reach.blocks_reached, 0u);
}

HK_FRESH_TEST(Reach, APageThatCannotBeReadIsPassedOver) {
  hk_heap_t *heap = hk_heap_take();
  void *before = Small(heap, 4), *behind = Small(heap, 4);
  char *extent = static_cast<char *>(hk_os_reserve(3 * 4096, 4096));
  Point(extent, 0, before);
  Point(extent, 2 * 4096, behind);
  ASSERT_TRUE(hk_os_unmap(extent + 4096, 4096));
  Scan scan({});
  hk_reach_from(&scan.reach, AddressOf(extent), 3 * 4096);
  EXPECT_EQ(scan.Has(before), hk_reach_yes);
  EXPECT_EQ(scan.Has(behind), hk_reach_yes);
}

HK_FRESH_TEST(Reach, WhatIsOursIsToldByAddress) {
  hk_heap_t *heap = hk_heap_take();
  void *block = Small(heap, 4), *big = Big(3 * HK_MIB);
  Scan scan({});
  uintptr_t start = 0, end = 0, at = 0;
  unsigned count = 0;
  bool has_block = false, has_big = false, has_memory = false;
  for (; hk_reach_next_own(&scan.reach, at, &start, &end); at = end, count++) {
    ASSERT_LT(at, end);
    has_block |= start <= AddressOf(block) && AddressOf(block) < end;
    has_big |= start == AddressOf(big) && end >= start + 3 * HK_MIB;
    has_memory |= start == AddressOf(scan.reach.memory) && end == start + scan.reach.memory_bytes;
    ASSERT_LT(count, 10u);
  }
  EXPECT_TRUE(has_block);
  EXPECT_TRUE(has_big);
  EXPECT_TRUE(has_memory);
}

HK_FRESH_TEST(Reach, ItEndsWhenItsTimeIsOver) {
  hk_heap_t *heap = hk_heap_take();
  void *block = Small(heap, 4);
  hk_reach_t reach;
  ASSERT_TRUE(hk_reach_begin(&reach, 10, nullptr));
  fake_os_advance(10 * 1000000);
  uintptr_t root = AddressOf(block);
  hk_reach_from(&reach, AddressOf(&root), sizeof root);
  EXPECT_TRUE(reach.is_cut_short);
  hk_reach_end(&reach);
}

int steps_left;

// A thread that scans looks in between whether it still may.
HK_FRESH_TEST(Reach, ItIsStoppedBetweenAnyTwoPieces) {
  constexpr size_t kBytes = 16 * HK_MIB;
  void *block = Big(kBytes);
  uintptr_t root = AddressOf(block);
  for (int steps : {0, 1, 10}) {
    hk_reach_t reach;
    steps_left = steps;
    ASSERT_TRUE(hk_reach_begin(&reach, kLongMs, [] { return steps_left-- > 0; }));
    hk_reach_from(&reach, AddressOf(&root), sizeof root);
    EXPECT_TRUE(reach.is_stopped && reach.is_cut_short);
    EXPECT_LE(reach.bytes_read, size_t(steps) * 64 * HK_KIB);
    EXPECT_EQ(steps_left, -1) << "nothing is read after that";
    hk_reach_end(&reach);
  }
}

HK_FRESH_TEST(Reach, WithoutMemoryThereIsNoScan) {
  ASSERT_NE(Small(hk_heap_take(), 4), nullptr);
  size_t mapped = fake_os_mapped_bytes();
  hk_reach_t reach;
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_FALSE(hk_reach_begin(&reach, kLongMs, nullptr));
  fake_os_fail_all(fake_os_reserve, false);
  ASSERT_TRUE(hk_reach_begin(&reach, kLongMs, nullptr));
  hk_reach_end(&reach);
  EXPECT_EQ(fake_os_mapped_bytes(), mapped);
}

}  // namespace
