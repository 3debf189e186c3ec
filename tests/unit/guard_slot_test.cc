// space/guard_slot: places of blocks, protection, the order of reuse, padding, look-ups and refusals. Each test is a
// process of its own, as the pool is one of the process.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "base/bits.h"
#include "base/units.h"
#include "block_pattern.h"
#include "fake_os.h"
#include "fresh_test.h"
#include "os/os.h"
#include "space/guard_room.h"
#include "space/guard_slot.h"

namespace {

constexpr hk_guard_deed_t kAlloc = {nullptr, 7, 100}, kFree = {nullptr, 8, 200};

// Whether the kernel can read the byte: a pipe refuses memory that no access may touch.
bool IsReadable(uintptr_t address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  bool readable = write(ends[1], reinterpret_cast<const void *>(address), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

// Whether a slot has the block that the address lies in.
bool IsKnown(uintptr_t address) {
  hk_guard_view_t view;
  return hk_guard_slot_find(address, &view);
}

uintptr_t Alloc(size_t bytes, size_t alignment = 16) {
  return reinterpret_cast<uintptr_t>(hk_guard_slot_alloc(bytes, alignment, &kAlloc, nullptr));
}

hk_guard_free_t Free(uintptr_t block, uintptr_t *damage = nullptr) {
  hk_guard_view_t view;
  uintptr_t ignored;
  return hk_guard_slot_free(block, &kFree, &view, damage != nullptr ? damage : &ignored);
}

// Each block has its chance, also while another thread counts the process's mappings: for as many as 512 of them.
HK_FRESH_TEST(GuardRoom, HasRoomForEachOfManyThreads) {
  std::atomic<int> refused{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      while (!go) std::this_thread::yield();
      for (int round = 0; round < 160; round++) refused += !hk_guard_room_take(1);
    });
  }
  go = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
}

HK_FRESH_TEST(GuardSlot, HasNoSlotBeforeItsPoolIsMade) {
  EXPECT_EQ(Alloc(16), 0u);
  EXPECT_FALSE(IsKnown(0x1000));
  EXPECT_EQ(hk_guard_slot_usage(1).slots, 0u);
  EXPECT_TRUE(hk_guard_slot_begin(8));
  EXPECT_TRUE(hk_guard_slot_begin(9)) << "there is one";
  EXPECT_EQ(hk_guard_slot_usage(1).slots, 8u);
}

HK_FRESH_TEST(GuardSlot, ABlockLiesAtOneEndOfPagesBetweenGuards) {
  ASSERT_TRUE(hk_guard_slot_begin(64));
  size_t page = hk_os_page_size();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{16}, size_t{40}, page - 1, page, page + 1, 10 * page, HK_MIB}) {
    for (size_t alignment : {size_t{1}, size_t{16}, size_t{64}, page, 16 * page}) {
      bool at_start = false, at_end = false;
      for (int turn = 0; turn < 2; turn++) {
        uintptr_t block = Alloc(bytes, alignment);
        ASSERT_NE(block, 0u) << bytes << " " << alignment;
        EXPECT_EQ(block % alignment, 0u);
        EXPECT_EQ(block % 16, 0u);
        hk_guard_view_t view;
        ASSERT_TRUE(hk_guard_slot_find(block, &view));
        EXPECT_EQ(view.start, block);
        EXPECT_EQ(view.bytes, bytes);
        EXPECT_EQ(view.state, hk_guard_live);
        EXPECT_EQ(view.allocated.thread, 7u);
        EXPECT_FALSE(IsReadable(view.pages - 1));
        EXPECT_FALSE(IsReadable(view.pages + view.pages_bytes));
        EXPECT_TRUE(IsReadable(view.pages) && IsReadable(view.pages + view.pages_bytes - 1));
        ASSERT_EQ(hk_test::FindNonZero(reinterpret_cast<void *>(block), bytes), hk_test::kIntact);
        at_start |= block == view.pages;
        size_t left = view.pages + view.pages_bytes - (block + (bytes > 0 ? bytes : 1));
        at_end |= left < 16 || (alignment > 16 && left < alignment);
        EXPECT_EQ(Free(block), hk_guard_free_done);
        EXPECT_FALSE(IsReadable(view.pages));
        ASSERT_TRUE(hk_guard_slot_find(block, &view));
        EXPECT_EQ(view.state, hk_guard_freed);
        EXPECT_EQ(view.freed.thread, 8u);
      }
      EXPECT_TRUE(at_start && at_end) << bytes << " " << alignment;
    }
  }
}

// Whether the page is mapped: else a mapping that prefers the address gets it.
bool IsMapped(uintptr_t page) {
  void *wanted = reinterpret_cast<void *>(page);
  void *found = mmap(wanted, hk_os_page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(found, MAP_FAILED);
  munmap(found, hk_os_page_size());
  return found != wanted;
}

// A slab's descriptor speaks for all its addresses: in a slab of which a span has the first pages alone, a guarded
// block would be taken for one of the span's.
HK_FRESH_TEST(GuardSlot, NothingElseLiesInTheSlabsOfItsBlocks) {
  ASSERT_TRUE(hk_guard_slot_begin(8));
  size_t page = hk_os_page_size();
  for (size_t bytes : {size_t{40}, page + 1, HK_SLAB_BYTES - page, 3 * HK_SLAB_BYTES}) {
    for (size_t alignment : {size_t{16}, 4 * page, 4 * HK_SLAB_BYTES}) {
      uintptr_t block = Alloc(bytes, alignment);
      ASSERT_NE(block, 0u);
      EXPECT_EQ(block % alignment, 0u);
      uintptr_t end = hk_align_up(block + bytes, HK_SLAB_BYTES);
      for (uintptr_t at = hk_align_down(block, HK_SLAB_BYTES); at < end; at += page) ASSERT_TRUE(IsMapped(at));
      EXPECT_EQ(Free(block), hk_guard_free_done);
    }
  }
}

HK_FRESH_TEST(GuardSlot, TheBlockThatWasFreedFirstGivesItsSlot) {
  constexpr size_t kSlots = 16;
  for (size_t bytes : {size_t{40}, 5 * hk_os_page_size()}) {
    ASSERT_TRUE(hk_guard_slot_begin(kSlots));
    size_t slots = bytes > hk_os_page_size() ? hk_guard_slot_usage(0).large_slots : kSlots;
    size_t others = hk_guard_slot_usage(0).freed;
    std::vector<uintptr_t> blocks;
    for (size_t i = 0; i < slots; i++) blocks.push_back(Alloc(bytes));
    EXPECT_EQ(Alloc(bytes), 0u) << "all are in use";
    for (size_t i = slots; i-- > 0;) ASSERT_EQ(Free(blocks[i]), hk_guard_free_done);
    EXPECT_EQ(hk_guard_slot_usage(250).freed, others + slots);
    EXPECT_EQ(hk_guard_slot_usage(250).age_ms, 50u);
    for (size_t i = slots; i-- > 0;) {
      hk_guard_view_t view;
      ASSERT_TRUE(hk_guard_slot_find(blocks[i], &view));
      EXPECT_EQ(view.state, hk_guard_freed) << "until its turn comes";
      ASSERT_NE(Alloc(bytes), 0u);
      if (i > 0) {
        ASSERT_TRUE(hk_guard_slot_find(blocks[i - 1], &view));
        EXPECT_EQ(view.state, hk_guard_freed);
      }
    }
    EXPECT_EQ(Alloc(bytes), 0u);
    EXPECT_EQ(hk_guard_slot_usage(250).freed, others);
    std::set<uintptr_t> live;
    hk_guard_slot_visit([](const hk_guard_view_t *view,
                           void *context) { static_cast<std::set<uintptr_t> *>(context)->insert(view->start); },
                        &live);
    for (uintptr_t block : live) ASSERT_EQ(Free(block), hk_guard_free_done);
  }
}

// Blocks of one call stack lie at either end in turn, whatever others are allocated between.
HK_FRESH_TEST(GuardSlot, EachCallStackHasItsTurn) {
  ASSERT_TRUE(hk_guard_slot_begin(64));
  size_t page = hk_os_page_size();
  std::vector<bool> is_at_start[2];
  for (int i = 0; i < 12; i++) {
    for (uintptr_t site = 0; site < (i % 3 == 0 ? 2 : 1); site++) {
      hk_guard_deed_t deed = {reinterpret_cast<hk_site *>(0x1000 + 0x40 * site), 7, 100};
      uintptr_t block = reinterpret_cast<uintptr_t>(hk_guard_slot_alloc(40, 16, &deed, nullptr));
      is_at_start[site].push_back(block % page == 0);
    }
  }
  for (const std::vector<bool> &turns : is_at_start) {
    for (size_t i = 1; i < turns.size(); i++) EXPECT_NE(turns[i], turns[i - 1]) << i;
  }
}

// Freed long blocks lose their addresses, and so their protection; others keep theirs.
HK_FRESH_TEST(GuardSlot, AddressesGoBackWhereTheyAreWanted) {
  ASSERT_TRUE(hk_guard_slot_begin(64));
  size_t page = hk_os_page_size();
  uintptr_t live = Alloc(10 * page), paged = Alloc(40);
  std::vector<uintptr_t> freed;
  for (int i = 0; i < 3; i++) freed.push_back(Alloc(20 * page));
  for (uintptr_t block : freed) ASSERT_EQ(Free(block), hk_guard_free_done);
  ASSERT_EQ(Free(paged), hk_guard_free_done);
  EXPECT_TRUE(IsKnown(freed[0]));
  hk_guard_slot_drop_addresses();
  for (uintptr_t block : freed) EXPECT_FALSE(IsKnown(block));
  EXPECT_TRUE(IsKnown(paged));
  EXPECT_TRUE(IsReadable(live));
  EXPECT_EQ(Free(live), hk_guard_free_done);
  for (int i = 0; i < 20; i++) {
    uintptr_t block = Alloc(20 * page);
    ASSERT_NE(block, 0u) << "the slots serve again";
    ASSERT_EQ(Free(block), hk_guard_free_done);
  }
}

HK_FRESH_TEST(GuardSlot, EachDamagedByteOfThePaddingIsFound) {
  ASSERT_TRUE(hk_guard_slot_begin(8));
  size_t page = hk_os_page_size();
  for (size_t bytes : {size_t{1}, size_t{40}, page - 17, page + 40}) {
    for (int turn = 0; turn < 2; turn++) {
      hk_guard_view_t view;
      uintptr_t probe = Alloc(bytes);
      ASSERT_TRUE(hk_guard_slot_find(probe, &view));
      size_t before = view.start - view.pages, behind = view.pages + view.pages_bytes - (view.start + view.bytes);
      ASSERT_EQ(Free(probe), hk_guard_free_done);
      for (size_t step = 0; step < 40; step++) {
        uintptr_t block = Alloc(bytes), damage = 0;
        ASSERT_TRUE(hk_guard_slot_find(block, &view));
        if (view.start - view.pages != before) { /* the other end's turn */
          ASSERT_EQ(Free(block), hk_guard_free_done);
          block = Alloc(bytes);
          ASSERT_TRUE(hk_guard_slot_find(block, &view));
        }
        size_t at = step * (before + behind) / 40;
        uintptr_t place = at < before ? block - 1 - at : block + bytes + (at - before);
        if (before + behind == 0) break;
        *reinterpret_cast<unsigned char *>(place) ^= 1;
        EXPECT_EQ(Free(block, &damage), hk_guard_free_damaged);
        EXPECT_EQ(damage, place);
      }
      (void)Free(Alloc(bytes)); /* so that the other end comes first next time */
    }
  }
}

HK_FRESH_TEST(GuardSlot, OnlyTheStartOfALiveBlockIsFreed) {
  ASSERT_TRUE(hk_guard_slot_begin(8));
  for (size_t bytes : {size_t{100}, 3 * hk_os_page_size()}) {
    uintptr_t block = Alloc(bytes);
    EXPECT_EQ(Free(block + 1), hk_guard_free_refused);
    EXPECT_EQ(Free(block - 16), hk_guard_free_refused);
    EXPECT_EQ(Free(block), hk_guard_free_done);
    EXPECT_EQ(Free(block), hk_guard_free_refused);
    hk_guard_view_t view;
    EXPECT_TRUE(hk_guard_slot_find(block + bytes, &view));
    EXPECT_EQ(view.start, block);
  }
}

HK_FRESH_TEST(GuardSlot, AnErrorIsLetPassUntilTheSlotIsUsedAgain) {
  ASSERT_TRUE(hk_guard_slot_begin(1));
  size_t page = hk_os_page_size();
  uintptr_t block = Alloc(page);
  EXPECT_TRUE(hk_guard_slot_open_page(block + page));
  EXPECT_TRUE(IsReadable(block + page));
  EXPECT_EQ(Free(block), hk_guard_free_done);
  EXPECT_TRUE(hk_guard_slot_open_page(block));
  EXPECT_TRUE(IsReadable(block));
  EXPECT_EQ(Alloc(page), block) << "the only slot";
  EXPECT_TRUE(IsReadable(block));
  EXPECT_FALSE(IsReadable(block + page));
}

HK_FRESH_TEST(GuardSlot, AGuardPageIsClosedByTheNextBlockOfEitherNeighbour) {
  ASSERT_TRUE(hk_guard_slot_begin(4));
  const size_t page = hk_os_page_size();
  uintptr_t first = Alloc(40), second = Alloc(40), third = Alloc(40), fourth = Alloc(40);
  ASSERT_TRUE(first != 0 && second != 0 && third != 0 && fourth != 0);
  uintptr_t between = (second & ~(page - 1)) + page; /* the second and the third block */
  ASSERT_TRUE(hk_guard_slot_open_page(between + 1)) << "in the half of the second one";
  EXPECT_TRUE(IsReadable(between));
  Free(third);
  EXPECT_EQ(Alloc(40) & ~(page - 1), third & ~(page - 1));
  EXPECT_FALSE(IsReadable(between));
}

HK_FRESH_TEST(GuardSlot, ThePageOfASlotThatWasNeverUsedIsTheLastBlocks) {
  ASSERT_TRUE(hk_guard_slot_begin(4));
  const size_t page = hk_os_page_size();
  hk_guard_view_t view;
  uintptr_t block = Alloc(40);
  EXPECT_TRUE(hk_guard_slot_find(block + 2 * page, &view));
  EXPECT_EQ(view.start, block);
  EXPECT_TRUE(hk_guard_slot_find(block + 5 * page, &view));
  EXPECT_EQ(view.start, block);
}

HK_FRESH_TEST(GuardSlot, OneOfSeveralThreadsFreesABlock) {
  ASSERT_TRUE(hk_guard_slot_begin(32));
  for (int round = 0; round < 300; round++) {
    uintptr_t block = Alloc(round % 2 == 0 ? 64 : 5000);
    ASSERT_NE(block, 0u);
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back([&] { done += Free(block) == hk_guard_free_done; });
    for (std::thread &thread : threads) thread.join();
    ASSERT_EQ(done, 1);
  }
}

HK_FRESH_TEST(GuardSlot, ThreadsShareThePool) {
  ASSERT_TRUE(hk_guard_slot_begin(24));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([i] {
      for (int round = 0; round < 400; round++) {
        size_t bytes = round % 5 == 0 ? 6000 : 1 + static_cast<size_t>(round * 37 % 4000);
        uintptr_t block = Alloc(bytes);
        if (block == 0) continue;
        for (size_t at = 0; at < bytes; at++)
          reinterpret_cast<unsigned char *>(block)[at] = static_cast<unsigned char>(i);
        for (size_t at = 0; at < bytes; at++) ASSERT_EQ(reinterpret_cast<unsigned char *>(block)[at], i);
        ASSERT_EQ(Free(block), hk_guard_free_done);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(hk_guard_slot_usage(300).live, 0u);
}

// A thread that has taken the next slot, and has not written it yet, hides no slot behind it.
HK_FRESH_TEST(GuardSlot, ThreadsFindTheirBlocksWhileOthersTakeSlots) {
  ASSERT_TRUE(hk_guard_slot_begin(8000));
  std::atomic<int> missed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      for (int round = 0; round < 160; round++) {
        hk_guard_view_t view;
        uintptr_t block = Alloc(round % 2 == 0 ? 5000 : 64);
        missed += block == 0 || !hk_guard_slot_find(block, &view) || view.start != block;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(hk_guard_slot_usage(300).live, 640u);
}

}  // namespace
