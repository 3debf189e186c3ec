// heap/prefault: which pages are made resident before blocks are cut from them.
#include <algorithm>
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

Blocks TakeSpans(hk_heap_t *heap, unsigned class_index, unsigned spans) {
  Blocks blocks;
  while (blocks.size() < spans * size_t{CapacityOf(class_index)}) blocks.push_back(Alloc(heap, class_index));
  return blocks;
}

bool IsPrefaultedMid(unsigned class_index) {
  return hk_class_is_mid(class_index) && hk_class_bytes(class_index) <= HK_PREFAULT_MAX_BLOCK;
}

HK_FRESH_TEST(Prefault, OfATinyClassItIsWhatIsCut) {
  hk_heap_t *heap = hk_heap_take();
  unsigned class_index = hk_class_of(256);
  Blocks blocks;
  for (int i = 0; i < 12; i++) {
    blocks.push_back(Alloc(heap, class_index));
    std::set<uintptr_t> pages = PrefaultedPages(), cut;
    const hk_slab_t *span = SpanOf(blocks[0]);
    uintptr_t end = hk_slab_start(span) + CarvedOf(span) * size_t{256};
    for (uintptr_t page : pages) EXPECT_LT(page, end) << "nothing of it is untouched";
    while (hk_block_is_intact(heap->bin[class_index].free)) blocks.push_back(Pop(heap, class_index));
  }
  EXPECT_GT(PrefaultedPages().size(), 12u);
}

HK_FRESH_TEST(Prefault, AGrowingClassTakesAlmostAllOfItsPagesSo) {
  for (size_t bytes : {size_t{16}, size_t{80}, size_t{1024}, size_t{1280}, 2 * HK_KIB, 3 * HK_KIB, 4 * HK_KIB,
                       5 * HK_KIB, 8 * HK_KIB}) {
    SCOPED_TRACE(bytes);
    hk_heap_t *heap = hk_heap_take();
    unsigned class_index = hk_class_of(bytes);
    size_t before = PrefaultedPages().size();
    std::set<uintptr_t> used = PagesOf(TakeSpans(heap, class_index, 8), hk_class_bytes(class_index));
    std::set<uintptr_t> made = PrefaultedPages();
    EXPECT_GT(made.size() - before, used.size() * 3 / 4);
    EXPECT_EQ(StatOf(heap, hk_stat_prefault), (made.size() - before) * kPage);
  }
}

// One block less than would fill the spans; all that was made resident belongs to blocks of its slab.
HK_FRESH_TEST(Prefault, NothingIsMadeResidentThatNoBlockWillHave) {
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    std::set<uintptr_t> before = PrefaultedPages(), made;
    std::set<uintptr_t> used = PagesOf(TakeSpans(heap, class_index, 3), hk_class_bytes(class_index));
    for (uintptr_t page : PrefaultedPages()) {
      if (before.count(page) == 0) made.insert(page);
    }
    EXPECT_TRUE(std::includes(used.begin(), used.end(), made.begin(), made.end()));
    if (hk_class_is_mid(class_index) && !IsPrefaultedMid(class_index)) EXPECT_EQ(made.size(), 0u);
  }
}

HK_FRESH_TEST(Prefault, AMidClassIsAtMostAPartOfASlabAhead) {
  for (unsigned class_index = HK_TINY_CLASS_MAX + 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    std::set<uintptr_t> before = PrefaultedPages();
    Blocks blocks;
    for (unsigned i = 0; i < 2 * CapacityOf(class_index); i++) {
      blocks.push_back(Alloc(heap, class_index));
      std::set<uintptr_t> used = PagesOf(blocks, hk_class_bytes(class_index));
      size_t ahead = 0;
      for (uintptr_t page : PrefaultedPages()) ahead += before.count(page) == 0 && used.count(page) == 0;
      EXPECT_LE(ahead, HK_PREFAULT_BYTES / kPage);
      if (i < 2) EXPECT_EQ(ahead, 0u) << "a class in light use";
    }
  }
}

HK_FRESH_TEST(Prefault, AtALeanPriceNothingIsMadeResidentAhead) {
  hk_option.mode = HK_PRICE_LEAN;
  hk_heap_t *heap = hk_heap_take();
  (void)TakeSpans(heap, hk_class_of(2 * HK_KIB), 4);
  EXPECT_EQ(Prefaults().size(), 0u);
  (void)TakeSpans(heap, hk_class_of(256), 4);
  EXPECT_GT(Prefaults().size(), 0u) << "what is cut is touched at once";
}

HK_FRESH_TEST(Prefault, MemoryThatWasUsedBeforeIsResident) {
  hk_heap_t *heap = hk_heap_take();
  unsigned class_index = hk_class_of(2 * HK_KIB);
  for (hk_block_t *block : TakeSpans(heap, class_index, 4)) Free(heap, block);
  size_t calls = Prefaults().size();
  (void)TakeSpans(heap, class_index, 4);
  EXPECT_EQ(Prefaults().size(), calls);
}

HK_FRESH_TEST(Prefault, WhereTheSystemRefusesBlocksComeAllTheSame) {
  fake_os_fail_all(fake_os_prefault, true);
  hk_heap_t *heap = hk_heap_take();
  EXPECT_EQ(TakeSpans(heap, hk_class_of(64), 4).back() != nullptr, true);
  EXPECT_GT(fake_os_failures(fake_os_prefault), 0u);
  EXPECT_EQ(StatOf(heap, hk_stat_prefault), 0u);
}

HK_FRESH_TEST(Prefault, WherePagesAreLargeASlabIsOne) {
  fake_os_set_page_size(64 * HK_KIB);
  hk_heap_t *heap = hk_heap_take();
  for (size_t bytes : {size_t{64}, 2 * HK_KIB}) (void)TakeSpans(heap, hk_class_of(bytes), 4);
  EXPECT_EQ(Prefaults().size(), 0u);
}

}  // namespace
