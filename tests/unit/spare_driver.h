// Makes runs, and looks at the free slabs that a heap keeps.
#ifndef HK_TESTS_UNIT_SPARE_DRIVER_H
#define HK_TESTS_UNIT_SPARE_DRIVER_H

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace spare_driver {

inline bool is_zero;

inline hk_slab_t *HeadOf(const void *run) { return hk_slab_of(run); }

inline void *NewRun(size_t slabs) { return hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &is_zero); }

inline bool Put(hk_heap_t *heap, void *run) { return hk_test::SpareRun(heap, HeadOf(run)); }

inline void *Take(hk_heap_t *heap, size_t slabs) { return hk_test::TakeSpareRun(heap, slabs * HK_SLAB_BYTES); }

// The slabs of a row in the list of that length, each of them free.
inline size_t SlabsOfRow(const hk_slab_t *head, unsigned length) {
  EXPECT_EQ(head->slab_count, length);
  for (unsigned k = 0; k < head->slab_count; k++) {
    EXPECT_EQ(hk_verify(reinterpret_cast<void *>(hk_slab_start(&head[k]))).verdict, hk_verdict_free);
    EXPECT_EQ(hk_load_relaxed(&head[k].owner), nullptr);
  }
  return head->slab_count;
}

inline size_t SlabsIn(hk_list_t (&lists)[HK_RUN_MAX_SLABS]) {
  size_t slabs = 0;
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) {
    for (hk_list_t *node = lists[i].next; node != &lists[i]; node = node->next)
      slabs += SlabsOfRow(HK_CONTAINER_OF(node, hk_slab_t, link), i + 1);
  }
  return slabs;
}

inline size_t SlabsIn(const hk_sparse_t &sparse) {
  size_t slabs = 0;
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) {
    for (const hk_slab_t *head = sparse.of_length[i]; head != nullptr; head = head->sparse.next)
      slabs += SlabsOfRow(head, i + 1);
  }
  return slabs;
}

// The slabs that the heap keeps for its next spans and runs, sparse runs among them.
inline size_t KeptSlabs(hk_heap_t *heap) {
  size_t slabs = SlabsIn(heap->spare), of_sparse_runs = SlabsIn(heap->sparse);
  EXPECT_LE(slabs, hk_test::SpareRoom());
  EXPECT_EQ(of_sparse_runs, heap->sparse.kept.slabs);
  EXPECT_EQ(slabs, heap->spare_slabs);
  return slabs + of_sparse_runs;
}

// The known sparse runs in use that the heap had kept.
struct KnownInUse {
  size_t slabs, pages;
};
inline KnownInUse InUse(hk_heap_t *heap) {
  hk_sparse_t &sparse = heap->sparse;
  return {sparse.known.slabs - sparse.kept.slabs - hk_load_relaxed(&sparse.gone.gone_slabs),
          sparse.known.pages - sparse.kept.pages - hk_load_relaxed(&sparse.gone.gone_pages)};
}

inline void ExpectRun(const void *run, size_t slabs) {
  hk_finding_t finding = hk_verify(run);
  EXPECT_EQ(finding.verdict, hk_verdict_live);
  EXPECT_EQ(finding.bytes, slabs * HK_SLAB_BYTES);
  EXPECT_FALSE(hk_list_is_linked(&HeadOf(run)->link));
  for (size_t i = 1; i < slabs; i++) {
    EXPECT_EQ(hk_slab_state(&HeadOf(run)[i]), hk_slab_run_tail) << i;
    EXPECT_EQ(HeadOf(run)[i].head, HeadOf(run)) << i;
  }
}

// One class of each span length.
inline std::vector<unsigned> OneClassOfEachLength() {
  std::vector<unsigned> classes(HK_SPAN_MAX_SLABS);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) classes[hk_class_span_slabs(i) - 1] = i;
  for (unsigned class_index : classes) EXPECT_NE(class_index, 0u);
  return classes;
}

// The slabs that a heap has taken in advance.
struct Reserve {
  hk_slab_t *first;
  size_t slabs;
  bool operator==(const Reserve &) const = default;
};

inline Reserve ReserveOf(const hk_heap_t *heap) { return {heap->reserve, ReservedSlabs(heap)}; }

// How many slabs more than it needs a heap takes, where the slabs below are untouched.
inline constexpr size_t kReserveMost = 16;

inline size_t ReserveShare(const hk_heap_t *heap) {
  return std::min({size_t{heap->span_slabs} / 4, kReserveMost, hk_test::SpareRoom()});
}

inline uint64_t *FirstWordOf(const hk_slab_t *slab) { return reinterpret_cast<uint64_t *>(hk_slab_start(slab)); }

inline void WriteInto(hk_slab_t *head) {
  for (unsigned i = 0; i < head->slab_count; i++) *FirstWordOf(head + i) = UINT64_MAX;
}

// Where each owner writes the first word of each slab: that is still zero if the range says so.
inline void ExpectKnownZero(const hk_slab_t *head) {
  if (!head->is_zero) return;
  for (unsigned i = 0; i < head->slab_count; i++) ASSERT_EQ(*FirstWordOf(head + i), 0u) << i;
}

}  // namespace spare_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_SPARE_DRIVER_H
