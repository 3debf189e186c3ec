// heap/span_prefault: which pages are made resident before blocks are carved from them.
#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

constexpr size_t kPage = 4 * HK_KIB;

std::vector<fake_os_record_t> Prefaults() {
  std::vector<fake_os_record_t> records;
  for (size_t i = 0; i < fake_os_log_length(); i++) {
    if (fake_os_log(i)->call == fake_os_prefault) records.push_back(*fake_os_log(i));
  }
  return records;
}

// The pages of all calls; none is there twice.
std::set<uintptr_t> PrefaultedPages() {
  std::set<uintptr_t> pages;
  for (const fake_os_record_t &record : Prefaults()) {
    EXPECT_GE(record.bytes, 2 * kPage) << "of one page a call saves nothing";
    for (size_t at = 0; at < record.bytes; at += kPage) EXPECT_TRUE(pages.insert(record.start + at).second) << "twice";
  }
  return pages;
}

std::set<uintptr_t> PagesOf(const Blocks &blocks, size_t block_bytes) {
  std::set<uintptr_t> pages;
  for (const hk_block_t *block : blocks) {
    uintptr_t start = reinterpret_cast<uintptr_t>(block);
    for (uintptr_t at = start / kPage * kPage; at < start + block_bytes; at += kPage) pages.insert(at);
  }
  return pages;
}

// A block of which `bytes` are written to before the next one is allocated.
hk_block_t *AllocAndWrite(hk_heap_t *heap, unsigned class_index, size_t bytes) {
  hk_block_t *block = Alloc(heap, class_index);
  memset(static_cast<void *>(block), 1, bytes);
  return block;
}

Blocks TakeSpans(hk_heap_t *heap, unsigned class_index, unsigned spans) {
  Blocks blocks;
  while (blocks.size() < spans * size_t{CapacityOf(class_index)})
    blocks.push_back(AllocAndWrite(heap, class_index, hk_class_bytes(class_index)));
  return blocks;
}

HK_FRESH_TEST(SpanPrefault, OfATinyClassItIsWhatIsCarved) {
  hk_heap_t *heap = hk_heap_take();
  unsigned class_index = hk_class_of(256);
  Blocks blocks;
  for (int i = 0; i < 12; i++) {
    blocks.push_back(Alloc(heap, class_index));
    std::set<uintptr_t> pages = PrefaultedPages();
    const hk_slab_t *span = SpanOf(blocks[0]);
    uintptr_t end = hk_slab_start(span) + CarvedOf(span) * size_t{256};
    for (uintptr_t page : pages) EXPECT_LT(page, end) << "nothing of it is untouched";
    while (hk_block_is_intact(heap->bin[class_index].free)) blocks.push_back(Pop(heap, class_index));
  }
  EXPECT_GT(PrefaultedPages().size(), 12u);
}

HK_FRESH_TEST(SpanPrefault, AProgramThatFillsItsBlocksHasManyOfItsPagesSo) {
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(hk_class_bytes(class_index));
    hk_heap_t *heap = hk_heap_take();
    size_t before = PrefaultedPages().size();
    std::set<uintptr_t> used = PagesOf(TakeSpans(heap, class_index, 6), hk_class_bytes(class_index));
    std::set<uintptr_t> made = PrefaultedPages();
    EXPECT_GT(made.size() - before, used.size() / (hk_class_bytes(class_index) <= HK_PREFAULT_PART_BYTES ? 2 : 4));
    EXPECT_EQ(StatOf(heap, hk_stat_prefault), (made.size() - before) * kPage);
  }
}

HK_FRESH_TEST(SpanPrefault, NothingIsMadeResidentThatNoBlockWillHave) {
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(hk_class_bytes(class_index));
    hk_heap_t *heap = hk_heap_take();
    std::set<uintptr_t> before = PrefaultedPages(), made;
    std::set<uintptr_t> used = PagesOf(TakeSpans(heap, class_index, 3), hk_class_bytes(class_index));
    for (uintptr_t page : PrefaultedPages()) {
      if (before.count(page) == 0) made.insert(page);
    }
    EXPECT_TRUE(std::includes(used.begin(), used.end(), made.begin(), made.end()));
  }
}

HK_FRESH_TEST(SpanPrefault, AMidClassIsAtMostAPartOfASlabAhead) {
  for (unsigned class_index = HK_TINY_CLASS_MAX + 1; class_index < HK_CLASS_COUNT; class_index++) {
    size_t block_bytes = hk_class_bytes(class_index);
    SCOPED_TRACE(block_bytes);
    hk_heap_t *heap = hk_heap_take();
    std::set<uintptr_t> before = PrefaultedPages();
    Blocks blocks;
    for (unsigned i = 0; i < 2 * CapacityOf(class_index); i++) {
      blocks.push_back(AllocAndWrite(heap, class_index, block_bytes));
      std::set<uintptr_t> used = PagesOf(blocks, block_bytes);
      size_t ahead = 0;
      for (uintptr_t page : PrefaultedPages()) ahead += before.count(page) == 0 && used.count(page) == 0;
      EXPECT_LE(ahead, HK_PREFAULT_PART_BYTES / kPage);
      if ((i + 4) * block_bytes <= HK_PREFAULT_PART_BYTES) EXPECT_EQ(ahead, 0u) << "a class in light use";
    }
  }
}

// All but the last page of each.
HK_FRESH_TEST(SpanPrefault, OfBlocksThatAreNotFilledNothingIs) {
  for (size_t bytes : {8 * HK_KIB, 12 * HK_KIB, 16 * HK_KIB, 32 * HK_KIB}) {
    hk_heap_t *heap = hk_heap_take();
    unsigned class_index = hk_class_of(bytes);
    for (unsigned i = 0; i < 4 * CapacityOf(class_index); i++) (void)AllocAndWrite(heap, class_index, bytes - kPage);
  }
  EXPECT_EQ(Prefaults().size(), 0u);
}

HK_FRESH_TEST(SpanPrefault, APartThatWasFilledLaterTellsOfTheNextOne) {
  hk_heap_t *heap = hk_heap_take();
  unsigned class_index = hk_class_of(8 * HK_KIB);
  Blocks blocks;
  for (unsigned i = 0; i < 4; i++) blocks.push_back(AllocAndWrite(heap, class_index, kPage));
  EXPECT_EQ(Prefaults().size(), 0u);
  for (hk_block_t *block : blocks) memset(static_cast<void *>(block), 1, 8 * HK_KIB);
  blocks.push_back(Alloc(heap, class_index));
  ASSERT_EQ(Prefaults().size(), 1u);
  EXPECT_EQ(Prefaults()[0].start, reinterpret_cast<uintptr_t>(blocks[4]));
  EXPECT_EQ(Prefaults()[0].bytes, HK_PREFAULT_PART_BYTES);
}

HK_FRESH_TEST(SpanPrefault, AtALeanPriceNothingIsMadeResidentAhead) {
  hk_option.mode = HK_PRICE_LEAN;
  hk_heap_t *heap = hk_heap_take();
  (void)TakeSpans(heap, hk_class_of(2 * HK_KIB), 4);
  EXPECT_EQ(Prefaults().size(), 0u);
  (void)TakeSpans(heap, hk_class_of(256), 4);
  EXPECT_GT(Prefaults().size(), 0u) << "carved blocks are touched at once";
}

HK_FRESH_TEST(SpanPrefault, MemoryThatWasUsedBeforeIsResident) {
  hk_heap_t *heap = hk_heap_take();
  unsigned class_index = hk_class_of(2 * HK_KIB);
  for (hk_block_t *block : TakeSpans(heap, class_index, 4)) Free(heap, block);
  size_t calls = Prefaults().size();
  (void)TakeSpans(heap, class_index, 4);
  EXPECT_EQ(Prefaults().size(), calls);
}

HK_FRESH_TEST(SpanPrefault, WhereTheSystemRefusesBlocksComeAllTheSame) {
  fake_os_fail_all(fake_os_prefault, true);
  hk_heap_t *heap = hk_heap_take();
  EXPECT_NE(TakeSpans(heap, hk_class_of(64), 4).back(), nullptr);
  EXPECT_GT(fake_os_failures(fake_os_prefault), 0u);
  EXPECT_EQ(StatOf(heap, hk_stat_prefault), 0u);
}

HK_FRESH_TEST(SpanPrefault, WherePagesAreLargeASlabIsOne) {
  fake_os_set_page_size(64 * HK_KIB);
  hk_heap_t *heap = hk_heap_take();
  for (size_t bytes : {size_t{64}, 2 * HK_KIB}) (void)TakeSpans(heap, hk_class_of(bytes), 4);
  EXPECT_EQ(Prefaults().size(), 0u);
}

}  // namespace
