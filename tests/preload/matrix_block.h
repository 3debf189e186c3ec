/* tests/preload/matrix_block.h - one block of option_matrix.cc: made in every way, resized, verified and freed. */
#ifndef PRELOAD_MATRIX_BLOCK_H
#define PRELOAD_MATRIX_BLOCK_H

#include <dlfcn.h>
#include <malloc.h>

extern "C" {
#include "check.h"
}
#include "../support/block_pattern.h"
#include "../support/process_memory.h"
#include "../support/test_random.h"

namespace {

using namespace hk_test;

struct block_t {
  unsigned char *start;
  size_t usable;
  uint64_t stamp;
};

uint64_t seed;

/* hakmem's alone: null under another malloc. */
size_t (*collect)(void);
void *(*aligned_calloc)(size_t alignment, size_t count, size_t size);
void *(*aligned_realloc)(void *block, size_t alignment, size_t size);

template <typename Function>
void find(Function *&function, const char *name) {
  function = (Function *)dlsym(RTLD_DEFAULT, name);
}

void find_extensions(void) {
  find(collect, "hakmem_collect");
  find(aligned_calloc, "hakmem_aligned_calloc");
  find(aligned_realloc, "hakmem_aligned_realloc");
}

[[noreturn]] void wrong(const char *what, const block_t &block, size_t detail) {
  dprintf(2, "wrong: %s: block %p of %zu bytes, 0x%zx; seed %#llx, process %d\n", what, (void *)block.start,
          block.usable, detail, (unsigned long long)seed, (int)getpid());
  abort();
}

void verify(const block_t &block) {
  size_t offset = FindBrokenPattern(block.start, block.usable, block.usable, block.stamp);
  if (offset != kIntact) wrong("lost its contents at offset", block, offset);
}

size_t draw_size(TestRandom &random) {
  size_t kind = random.Below(1000);
  if (kind < 2) return random.LogBetween(kRunMax + 1, 4 * kMiB);
  if (kind < 20) return random.LogBetween(kMidMax + 1, kRunMax);
  if (kind < 180) return random.LogBetween(kTinyMax + 1, kMidMax);
  if (kind < 200) return random.OneIn(2) ? kTinyMax + random.Below(3) - 1 : kMidMax + random.Below(3) - 1;
  return random.OneIn(2) ? random.LogBetween(0, kTinyMax) : random.Below(kTinyMax + 1);
}

/* Fills a new block that is as large, as aligned and as clear as it has to be. */
block_t accept(TestRandom &random, void *start, size_t size, size_t alignment, bool is_zero) {
  block_t block = {(unsigned char *)start, size, random.Next()};
  if (start == nullptr) wrong("no memory", block, (size_t)errno);
  if ((uintptr_t)start % alignment != 0) wrong("is not aligned to", block, alignment);
  block.usable = malloc_usable_size(start);
  if (block.usable < size) wrong("is smaller than requested", block, size);
  if (is_zero) {
    size_t offset = FindNonZero(start, size);
    if (offset != kIntact) wrong("calloc left bytes from offset", block, offset);
  }
  FillPattern(start, block.usable, block.stamp);
  return block;
}

block_t make_aligned(TestRandom &random, size_t size) {
  size_t alignment = (size_t)8 << random.Below(random.OneIn(50) ? 18 : 10), page = (size_t)getpagesize();
  void *start = nullptr;
  switch (random.Below(6)) {
    case 0:
      start = aligned_alloc(alignment, size);
      break;
    case 1:
      start = memalign(alignment, size);
      break;
    case 2:
      return accept(random, valloc(size), size, page, false);
    case 3:
      return accept(random, pvalloc(size), (size + page - 1) / page * page, page, false);
    case 4:
      if (aligned_calloc != nullptr) return accept(random, aligned_calloc(alignment, 1, size), size, alignment, true);
      /* fall through */
    default:
      if (posix_memalign(&start, alignment, size) != 0) start = nullptr;
  }
  return accept(random, start, size, alignment, false);
}

block_t make_of_size(TestRandom &random, size_t size) {
  size_t kind = random.Below(100), count = random.Below(4) + 1;
  if (kind < 6) return make_aligned(random, size);
  if (kind < 24) return accept(random, calloc(count, size / count), size / count * count, 16, true);
  if (kind < 28) return accept(random, realloc(nullptr, size), size, 16, false);
  return accept(random, malloc(size), size, 16, false);
}

block_t make(TestRandom &random) { return make_of_size(random, draw_size(random)); }

void drop(const block_t &block) {
  verify(block);
  free(block.start);
}

void resize(TestRandom &random, block_t &block) {
  verify(block);
  size_t size = draw_size(random);
  switch (random.Below(6)) {
    case 0:
      size = block.usable + random.Below(3);
      break;
    case 1:
      size = block.usable - block.usable / (random.Below(8) + 1);
      break;
    case 2:
      size = block.usable < 2 * kMiB ? block.usable * 2 : block.usable;
  }
  if (size == 0) size = 1; /* realloc would free the block */
  block_t old = block;
  size_t alignment = 16;
  if (aligned_realloc != nullptr && random.OneIn(8)) {
    alignment <<= random.Below(random.OneIn(20) ? 14 : 9);
    block.start = (unsigned char *)aligned_realloc(block.start, alignment, size);
  } else if (random.OneIn(8)) {
    block.start = (unsigned char *)reallocarray(block.start, 1, size);
  } else {
    block.start = (unsigned char *)realloc(block.start, size);
  }
  if (block.start == nullptr) wrong("no memory for realloc", old, size);
  size_t offset = FindBrokenPattern(block.start, old.usable, old.usable < size ? old.usable : size, old.stamp);
  if (offset != kIntact) wrong("realloc lost contents at offset", block, offset);
  block = accept(random, block.start, size, alignment, false);
}

}  // namespace

#endif /* PRELOAD_MATRIX_BLOCK_H */
