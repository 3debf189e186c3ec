// api/address_class and inspect/describe: the text about an address, to the letter; and that any value may be
// described.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

#include "base/format.h"
#include "hakmem/hakmem.h"

extern "C" {
#include "api/address_class.h"
#include "inspect/describe.h"
#include "space/guard_slot.h"
#include "space/shortage.h"
}

using namespace hk_test;

namespace {

bool is_zero;

uintptr_t AddressOf(const void *block) { return reinterpret_cast<uintptr_t>(block); }

std::string Hex(uintptr_t value) {
  char text[24];
  hk_format_t format;
  hk_format_init(&format, text, sizeof text);
  hk_format_hex(&format, value);
  return text;
}

std::string Describe(uintptr_t address) {
  char text[HK_DESCRIBE_BYTES];
  size_t needed = hakmem_describe(reinterpret_cast<const void *>(address), text, sizeof text);
  EXPECT_EQ(needed, std::strlen(text));
  return text;
}

// "<address> is <what>"
std::string Is(uintptr_t address, const std::string &what) { return Hex(address) + " is " + what; }

std::string SmallHome(const void *block, const std::string &of, const std::string &whose) {
  hk_slab_t *span = SpanOf(block);
  unsigned count = span->slab_count;
  return " (" + of + ", span of " + std::to_string(count) + (count == 1 ? " slab at " : " slabs at ") +
         Hex(hk_slab_start(span)) + ", heap " + Hex(AddressOf(hk_load_relaxed(&span->owner))) + " " + whose + ")";
}

HK_FRESH_TEST(Describe, WhatIsNotOurs) {
  ASSERT_NE(Alloc(hk_heap_take(), 1), nullptr);
  int on_stack = 0;
  EXPECT_EQ(Describe(0), "0x0 is NULL");
  EXPECT_EQ(Describe(24), "0x18 is NULL plus 24 bytes, which is never mapped");
  EXPECT_EQ(Describe(HK_SLAB_BYTES - 1), "0xffff is NULL plus 65535 bytes, which is never mapped");
  EXPECT_EQ(Describe(HK_SLAB_BYTES), "0x10000 is not in hakmem's memory");
  EXPECT_EQ(Describe(AddressOf(&on_stack)), Is(AddressOf(&on_stack), "not in hakmem's memory"));
  EXPECT_EQ(Describe(UINTPTR_MAX), Is(UINTPTR_MAX, "not an address that a program can have"));
  uintptr_t past = uintptr_t{1} << HK_ADDRESS_BITS;
  EXPECT_EQ(Describe(past), Is(past, "not an address that a program can have"));
  EXPECT_EQ(Describe(past - 1), Is(past - 1, "not in hakmem's memory"));
}

HK_FRESH_TEST(Describe, AGuardedBlockLiveAndFreed) {
  ASSERT_TRUE(hk_guard_slot_begin(4));
  uint64_t now_ms = hk_os_coarse_ms();
  hk_guard_deed_t allocated = {.site = nullptr, .thread = 11, .ms = now_ms};
  uintptr_t start = AddressOf(hk_guard_slot_alloc(40, 16, &allocated, nullptr));
  ASSERT_NE(start, 0u);
  fake_os_advance(3000000);
  std::string at = " at " + Hex(start);
  std::string live = " (guarded, allocated by thread 11 3 ms ago)";
  EXPECT_EQ(Describe(start), Is(start, "the start of a live block of 40 bytes" + live));
  EXPECT_EQ(Describe(start + 39), Is(start + 39, "39 bytes into a live block of 40 bytes" + at + live));
  EXPECT_EQ(Describe(start + 41), Is(start + 41, "1 byte past the end of a live block of 40 bytes" + at + live));
  EXPECT_EQ(Describe(start - 2), Is(start - 2, "2 bytes before the start of a live block of 40 bytes" + at + live));

  hk_guard_deed_t freed = {.site = nullptr, .thread = 12, .ms = now_ms + 1};
  hk_guard_view_t view;
  uintptr_t damage;
  ASSERT_EQ(hk_guard_slot_free(start, &freed, &view, &damage), hk_guard_free_done);
  EXPECT_EQ(Describe(start), Is(start, "the start of a free block of 40 bytes (guarded, freed by thread 12 2 ms ago)"));
}

HK_FRESH_TEST(Describe, ASmallBlockFromItsStartToItsEnd) {
  hk_heap_t *heap = hk_heap_take();
  hk_thread_heap = heap;
  uintptr_t first = AddressOf(Alloc(heap, 4)), second = AddressOf(Alloc(heap, 4));
  ASSERT_EQ(second, first + 64);
  std::string home = SmallHome(reinterpret_cast<void *>(first), "tiny class 4", "of this thread");
  EXPECT_EQ(Describe(first), Is(first, "the start of a live block of 64 bytes" + home));
  std::string behind_neighbour = ", 63 bytes past the end of a free block of 64 bytes at " + Hex(first - 64);
  EXPECT_EQ(Describe(first + 63),
            Is(first + 63, "63 bytes into a live block of 64 bytes at " + Hex(first) + behind_neighbour + home));
  EXPECT_EQ(Describe(second), Is(second, "the start of a live block of 64 bytes" + home));
  EXPECT_EQ(Describe(second + 3),
            Is(second + 3, "3 bytes into a live block of 64 bytes at " + Hex(second) +
                               ", 3 bytes past the end of a live block of 64 bytes at " + Hex(first) + home));
}

HK_FRESH_TEST(Describe, ANeighbourIsNamedOnlyNearItsEnd) {
  hk_heap_t *heap = hk_heap_take();
  uintptr_t first = AddressOf(Alloc(heap, 20));
  uintptr_t second = AddressOf(Alloc(heap, 20));
  EXPECT_NE(Describe(second + 63).find(", 63 bytes past the end of a live block of 320 bytes at " + Hex(first)),
            std::string::npos);
  EXPECT_EQ(Describe(second + 64).find("past the end"), std::string::npos);
  (void)FreeOwn(heap, reinterpret_cast<void *>(first));
  EXPECT_NE(Describe(second + 1).find(", 1 byte past the end of a free block of 320 bytes at " + Hex(first)),
            std::string::npos);
}

HK_FRESH_TEST(Describe, AFreeBlockWhereverItIs) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  for (unsigned class_index : {20u, 64u, 66u, 104u}) {
    SCOPED_TRACE(class_index);
    std::string bytes = std::to_string(hk_class_bytes(class_index));
    std::vector<hk_block_t *> blocks;
    for (int i = 0; i < 8; i++) blocks.push_back(Alloc(heap, class_index));
    (void)FreeOwn(heap, blocks[1]);
    hk_remote_free(other, SpanOf(blocks[3]), blocks[3]);
    hk_remote_free_now(SpanOf(blocks[5]), blocks[5]);
    for (int i : {1, 3, 5}) {
      uintptr_t address = AddressOf(blocks[i]);
      EXPECT_EQ(Describe(address).find(Is(address, "the start of a free block of " + bytes + " bytes")), 0u) << i;
      EXPECT_EQ(Describe(address + 9).find(Is(address + 9, "9 bytes into a free block of " + bytes)), 0u) << i;
    }
    for (int i : {0, 2, 4}) EXPECT_NE(Describe(AddressOf(blocks[i])).find(" a live block"), std::string::npos) << i;
  }
}

#if HK_SAFETY
HK_FRESH_TEST(Describe, ABlockInUseThatLooksFreeIsLive) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *freed = Alloc(heap, 20), *block = Alloc(heap, 20);
  (void)FreeOwn(heap, freed);
  *block = *freed;
  ASSERT_TRUE(hk_block_looks_free(block));
  EXPECT_NE(Describe(AddressOf(block)).find("the start of a live block"), std::string::npos);
}
#endif

HK_FRESH_TEST(Describe, ABlockThatWasNeverAllocated) {
  hk_heap_t *heap = hk_heap_take();
  uintptr_t first = AddressOf(Alloc(heap, 4));
  uintptr_t last = hk_slab_start(SpanOf(reinterpret_cast<void *>(first))) + HK_SLAB_BYTES - 64;
  EXPECT_EQ(Describe(last).find(Is(last, "the start of a block of 64 bytes that was never handed out (tiny")), 0u);
  EXPECT_EQ(Describe(last + 5).find(
                Is(last + 5, "5 bytes into a block of 64 bytes at " + Hex(last) + " that was never handed out (tiny")),
            0u);
}

HK_FRESH_TEST(Describe, TheEndOfASlab) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, 3);
  for (unsigned i = 1; i < CapacityOf(3); i++) (void)Alloc(heap, 3);
  size_t used = hk_class_blocks_per_slab(3) * hk_class_bytes(3);
  ASSERT_LT(used, HK_SLAB_BYTES);
  uintptr_t start = hk_slab_start(SpanOf(block));
  for (size_t offset : {used, used + 7, HK_SLAB_BYTES - 1}) {
    EXPECT_EQ(Describe(start + offset)
                  .find(Is(start + offset, "behind the last block of a slab, " + std::to_string(offset - used) +
                                               " bytes past the end of a live block of 48 bytes at " +
                                               Hex(start + used - 48))),
              0u);
  }
}

HK_FRESH_TEST(Describe, WhatIsBehindAShortSpan) {
  hk_shortage_begin();
  hk_heap_t *heap = hk_heap_take();
  hk_slab_t *span = SpanOf(Alloc(heap, 3));
  ASSERT_TRUE(hk_short_span_is(span));
  for (unsigned i = 1; i < hk_span_capacity(span); i++) ASSERT_EQ(SpanOf(Alloc(heap, 3)), span);
  size_t mapped = hk_short_span_last_bytes(span), used = mapped / 48 * 48;
  uintptr_t address = hk_slab_start(span) + mapped + 5;
  EXPECT_EQ(Describe(address), Is(address, "not in hakmem's memory, " + std::to_string(mapped + 5 - used) +
                                               " bytes past the end of a live block of 48 bytes at " +
                                               Hex(hk_slab_start(span) + used - 48)));
}

HK_FRESH_TEST(Describe, WhoseItIs) {
  hk_heap_t *heap = hk_heap_take();
  uintptr_t block = AddressOf(Alloc(heap, 4));
  EXPECT_NE(Describe(block).find(" of another live thread)"), std::string::npos);
  hk_thread_heap = heap;
  EXPECT_NE(Describe(block).find(" of this thread)"), std::string::npos);
  hk_thread_heap = HK_EMPTY_HEAP;
  hk_heap_give_back(heap);
  EXPECT_NE(Describe(block).find(" whose thread has ended)"), std::string::npos);
  hk_store_relaxed(&heap->life, hk_heap_lost);
  EXPECT_NE(Describe(block).find(" whose thread vanished in a fork)"), std::string::npos);
}

HK_FRESH_TEST(Describe, ASpanOfSeveralSlabs) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = nullptr;
  for (unsigned i = 0; i < CapacityOf(104); i++) block = Alloc(heap, 104);
  hk_slab_t *span = SpanOf(block);
  ASSERT_EQ(span->slab_count, 4);
  ASSERT_NE(hk_slab_of(block), span);
  EXPECT_EQ(Describe(AddressOf(block)),
            Is(AddressOf(block), "the start of a live block of 32768 bytes" +
                                     SmallHome(block, "mid class 104", "of another live thread")));
}

HK_FRESH_TEST(Describe, ARunAndWhatIsBehindIt) {
  uintptr_t run = AddressOf(hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero));
  std::string home = " (run of 3 slabs at " + Hex(run) + ")";
  EXPECT_EQ(Describe(run), Is(run, "the start of a live block of 196608 bytes" + home));
  uintptr_t inside = run + 2 * HK_SLAB_BYTES + 5;
  EXPECT_EQ(Describe(inside), Is(inside, "131077 bytes into a live block of 196608 bytes at " + Hex(run) + home));
  uintptr_t behind = run + 3 * HK_SLAB_BYTES + 2;
  EXPECT_EQ(Describe(behind),
            Is(behind, "in free memory, 2 bytes past the end of a live block of 196608 bytes at " + Hex(run)));
  ASSERT_TRUE(hk_run_free(hk_slab_of(reinterpret_cast<void *>(run))));
  EXPECT_EQ(Describe(run), Is(run, "in free memory"));
  EXPECT_EQ(Describe(inside), Is(inside, "in free memory"));
}

HK_FRESH_TEST(Describe, ALargeBlockAndWhatIsBehindIt) {
  constexpr size_t kBytes = 12 * HK_MIB;
  uintptr_t big = AddressOf(hk_large_alloc(kBytes, 1, &is_zero));
  EXPECT_EQ(Describe(big), Is(big, "the start of a live block of 12582912 bytes (large)"));
  uintptr_t inside = big + 7 * HK_MIB + 1;
  EXPECT_EQ(Describe(inside),
            Is(inside, "7340033 bytes into a live block of 12582912 bytes at " + Hex(big) + " (large)"));
  uintptr_t behind = big + kBytes + 100;
  EXPECT_EQ(
      Describe(behind),
      Is(behind, "not in hakmem's memory, 100 bytes past the end of a live block of 12582912 bytes at " + Hex(big)));
  ASSERT_TRUE(hk_large_free(hk_slab_of(reinterpret_cast<void *>(big)), reinterpret_cast<void *>(big)));
  EXPECT_EQ(Describe(inside), Is(inside, "not in hakmem's memory")) << "more than is kept";
}

HK_FRESH_TEST(Describe, WhatIsBehindABlockOfWholePages) {
  for (size_t bytes : {2 * hk_os_page_size(), HK_SLAB_BYTES + hk_os_page_size()}) {
    uintptr_t block = AddressOf(hk_large_alloc_pages(bytes, 1, &is_zero));
    ASSERT_NE(block, 0u);
    EXPECT_EQ(Describe(block + bytes + 5),
              Is(block + bytes + 5, "not in hakmem's memory, 5 bytes past the end of a live block of " +
                                        std::to_string(bytes) + " bytes at " + Hex(block)));
  }
}

HK_FRESH_TEST(Describe, AKeptLargeBlocksExtentIsFree) {
  uintptr_t big = AddressOf(hk_large_alloc(3 * HK_MIB, 1, &is_zero));
  ASSERT_TRUE(hk_large_free(hk_slab_of(reinterpret_cast<void *>(big)), reinterpret_cast<void *>(big)));
  EXPECT_EQ(Describe(big + HK_MIB), Is(big + HK_MIB, "in free memory"));
}

HK_FRESH_TEST(Describe, TheLengthIsThatOfTheWholeLine) {
  uintptr_t block = AddressOf(Alloc(hk_heap_take(), 4));
  const void *address = reinterpret_cast<const void *>(block);
  std::string whole = Describe(block);
  EXPECT_EQ(hakmem_describe(address, nullptr, 0), whole.size());
  for (size_t bytes : {size_t{1}, size_t{2}, size_t{20}, whole.size(), whole.size() + 1, whole.size() + 2}) {
    std::string buffer(whole.size() + 8, '#');
    EXPECT_EQ(hakmem_describe(address, &buffer[0], bytes), whole.size());
    EXPECT_STREQ(buffer.c_str(), whole.substr(0, bytes - 1).c_str());
    EXPECT_EQ(buffer[bytes], '#') << bytes;
  }
}

// A sampled block begins where the program's address is; what lies before it is told apart, and over it the neighbour
// is found.
HK_FRESH_TEST(Describe, ASampledBlock) {
  char *before = static_cast<char *>(hakmem_malloc(112));
  ASSERT_TRUE(hakmem_profile_start(1));
  for (size_t alignment : {size_t{16}, size_t{64}, size_t{4096}}) {
    for (size_t bytes : {size_t{96}, size_t{5000}, size_t{100000}, size_t{3} << 20}) {
      uintptr_t block = AddressOf(hakmem_aligned_alloc(alignment, bytes));
      hk_address_class_t where = hk_address_class_of(block);
      ASSERT_EQ(where.offset, alignment) << bytes;
      EXPECT_EQ(where.start, block);
      EXPECT_GE(where.bytes, bytes);
      std::string line = Describe(block);
      EXPECT_EQ(line.find(Is(block, "the start of a live block of ")), 0u) << line;
      EXPECT_NE(line.find(", sampled: " + std::to_string(bytes) + " bytes requested "), std::string::npos) << line;
      EXPECT_EQ(Describe(block + 90).find(Is(block + 90, "90 bytes into a live block of ")), 0u);
      std::string pad = "in the " + std::to_string(alignment) + " bytes before the sampled block at " + Hex(block);
      EXPECT_EQ(Describe(block - 1).find(Is(block - 1, pad)), 0u) << Describe(block - 1);
    }
  }
  ASSERT_TRUE(hakmem_profile_stop());
  hakmem_free(before);
}

// The longest: all numbers have as many digits as they can have.
HK_FRESH_TEST(Describe, EveryLineHasRoom) {
  hk_heap_t *heap = hk_heap_take();
  size_t longest = 0;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    uintptr_t address = AddressOf(Alloc(heap, class_index));
    for (size_t offset = 0; offset < 4 * HK_SLAB_BYTES; offset += 997) {
      longest = std::max(longest, Describe(address + offset).size());
    }
  }
  EXPECT_GT(longest, 150u);
  EXPECT_LT(longest + 64, size_t{HK_DESCRIBE_BYTES});
}

// Whatever a descriptor holds while another thread changes it: nothing is followed blindly.
HK_FRESH_TEST(Describe, DescriptorsInChangeLeadNowhere) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, 4);
  hk_slab_t *slab = hk_slab_of(block);
  char saved[sizeof *slab];
  std::memcpy(saved, slab, sizeof saved);
  auto restore = [&] { std::memcpy(static_cast<void *>(slab), saved, sizeof saved); };
  uintptr_t address = AddressOf(block) + 8;
  slab->head = nullptr;
  EXPECT_EQ(Describe(address), Is(address, "in free memory"));
  restore();
  slab->block_bytes = 0;
  EXPECT_NE(Describe(address).find("in free memory"), std::string::npos);
  restore();
  for (intptr_t bytes : {8, -8, 64 - 256, -static_cast<int>(HK_SUPERSLAB_SLABS * sizeof *slab)}) {
    slab->head = reinterpret_cast<hk_slab_t *>(AddressOf(slab) + bytes);
    EXPECT_EQ(Describe(address), Is(address, "in free memory")) << bytes;
  }
  restore();
  hk_slab_set_state(slab, hk_slab_run_tail);
  slab->head = nullptr;
  EXPECT_EQ(Describe(address), Is(address, "in free memory"));
}

}  // namespace
