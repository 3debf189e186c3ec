// space/meta: pieces of zero memory that do not overlap, chunk after chunk.
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/core_parts.h"

namespace {

constexpr size_t kFirstBytes = 64 * HK_KIB, kChunkBytes = 256 * HK_KIB;

bool IsFilledWith(const void *memory, size_t bytes, unsigned char value) {
  const unsigned char *byte = static_cast<const unsigned char *>(memory);
  for (size_t i = 0; i < bytes; i++) {
    if (byte[i] != value) return false;
  }
  return true;
}

HK_FRESH_TEST(Meta, PiecesAreZeroAlignedAndApart) {
  struct Piece {
    unsigned char *start;
    size_t bytes;
    unsigned char fill;
  };
  std::vector<Piece> pieces;
  for (size_t bytes = 1; bytes <= 3000; bytes += 37) {
    Piece piece = {static_cast<unsigned char *>(hk_meta_alloc(bytes)), bytes,
                   static_cast<unsigned char>(1 + pieces.size())};
    ASSERT_NE(piece.start, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.start) % HK_CACHE_LINE_BYTES, 0u);
    ASSERT_TRUE(IsFilledWith(piece.start, bytes, 0)) << bytes;
    memset(piece.start, piece.fill, bytes);
    pieces.push_back(piece);
  }
  for (const Piece &piece : pieces) ASSERT_TRUE(IsFilledWith(piece.start, piece.bytes, piece.fill)) << piece.bytes;
}

HK_FRESH_TEST(Meta, AChunkIsMappedWhenTheLastOneIsUsedUp) {
  EXPECT_EQ(hk_meta_mapped_bytes(), 0u);
  size_t mapped = 0;
  for (size_t chunk = 1; chunk <= 5; chunk++) {
    size_t chunk_bytes = chunk == 1 ? kFirstBytes : kChunkBytes;
    mapped += chunk_bytes;
    for (size_t i = 0; i < chunk_bytes / HK_CACHE_LINE_BYTES; i++) {
      ASSERT_NE(hk_meta_alloc(1), nullptr);
      ASSERT_EQ(hk_meta_mapped_bytes(), mapped);
    }
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 5u);
  EXPECT_EQ(fake_os_mapped_bytes(), mapped);
}

HK_FRESH_TEST(Meta, APieceMayBeLargerThanAChunk) {
  size_t bytes = kChunkBytes + 1;
  unsigned char *piece = static_cast<unsigned char *>(hk_meta_alloc(bytes));
  ASSERT_NE(piece, nullptr);
  EXPECT_TRUE(fake_os_is_mapped(piece, kChunkBytes + hk_os_page_size()));
  EXPECT_TRUE(IsFilledWith(piece, bytes, 0));
  EXPECT_EQ(hk_meta_mapped_bytes(), kChunkBytes + hk_os_page_size());
  memset(piece, 1, bytes);
  unsigned char *next = static_cast<unsigned char *>(hk_meta_alloc(100));
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(IsFilledWith(next, 100, 0));
}

HK_FRESH_TEST(Meta, WorksWithTheLargestPages) {
  fake_os_set_page_size(64 * HK_KIB);
  void *small = hk_meta_alloc(100);
  void *large = hk_meta_alloc(kChunkBytes + 1);
  ASSERT_NE(small, nullptr);
  ASSERT_NE(large, nullptr);
  EXPECT_TRUE(IsFilledWith(large, kChunkBytes + 1, 0));
  EXPECT_EQ(hk_meta_mapped_bytes(), kFirstBytes + kChunkBytes + 64 * HK_KIB);
}

HK_FRESH_TEST(Meta, ARefusedChunkIsAskedForAgain) {
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(hk_meta_alloc(1), nullptr);
  EXPECT_EQ(hk_meta_alloc(kChunkBytes + 1), nullptr);
  EXPECT_EQ(hk_meta_mapped_bytes(), 0u);
  fake_os_fail_all(fake_os_reserve, false);
  void *piece = hk_meta_alloc(1);
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(hk_meta_mapped_bytes(), kFirstBytes);
}

HK_FRESH_TEST(Meta, WhereAChunkIsRefusedAPieceIsEnough) {
  fake_os_limit_mapped(fake_os_mapped_bytes() + 2 * hk_os_page_size());
  void *piece = hk_meta_alloc(hk_os_page_size() + 1);
  ASSERT_NE(piece, nullptr);
  EXPECT_TRUE(IsFilledWith(piece, hk_os_page_size() + 1, 0));
  EXPECT_EQ(hk_meta_mapped_bytes(), 2 * hk_os_page_size());
  EXPECT_NE(hk_meta_alloc(1), nullptr) << "the rest of the chunk";
  EXPECT_EQ(hk_meta_alloc(hk_os_page_size()), nullptr);
}

HK_FRESH_TEST(Meta, WhatIsLeftOfAChunkNeedsNoSystem) {
  ASSERT_NE(hk_meta_alloc(1), nullptr);
  fake_os_fail_all(fake_os_reserve, true);
  size_t lines_left = kFirstBytes / HK_CACHE_LINE_BYTES - 1;
  EXPECT_EQ(hk_meta_alloc(kFirstBytes), nullptr) << "more than is left";
  for (size_t i = 0; i < lines_left; i++) ASSERT_NE(hk_meta_alloc(1), nullptr) << i;
  EXPECT_EQ(hk_meta_alloc(1), nullptr);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_NE(hk_meta_alloc(1), nullptr);
}

HK_FRESH_TEST(Meta, EveryPieceLiesInARangeThatIsVisited) {
  std::vector<uintptr_t> pieces;
  for (int i = 0; i < 40; i++) {
    pieces.push_back(reinterpret_cast<uintptr_t>(hk_meta_alloc(i % 7 == 0 ? 2 * kChunkBytes : 100 * HK_KIB)));
  }
  std::vector<std::pair<uintptr_t, size_t>> ranges;
  auto add = [](void *context, uintptr_t start, size_t bytes) {
    static_cast<std::vector<std::pair<uintptr_t, size_t>> *>(context)->emplace_back(start, bytes);
  };
  hk_meta_visit(add, &ranges);
  size_t all = 0;
  for (auto [start, bytes] : ranges) all += bytes;
  EXPECT_EQ(all, hk_meta_mapped_bytes());
  for (uintptr_t piece : pieces) {
    unsigned count = 0;
    for (auto [start, bytes] : ranges) count += piece - start < bytes;
    EXPECT_EQ(count, 1u);
  }
}

HK_FRESH_TEST(Meta, ThreadsGetPiecesOfTheirOwn) {
  constexpr int kThreads = 4, kPieces = 3000;
  std::vector<std::vector<uint64_t *>> pieces(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&pieces, t] {
      for (int i = 0; i < kPieces; i++) {
        uint64_t *piece = static_cast<uint64_t *>(hk_meta_alloc(64 + 64 * (i % 3)));
        if (piece == nullptr || *piece != 0) return; /* too few are counted below */
        *piece = 1;
        pieces[t].push_back(piece);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  std::set<uint64_t *> all;
  for (const std::vector<uint64_t *> &of_one : pieces) all.insert(of_one.begin(), of_one.end());
  EXPECT_EQ(all.size(), size_t{kThreads} * kPieces);
}

}  // namespace
