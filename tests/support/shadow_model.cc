/* tests/support/shadow_model.cc - see shadow_model.h. */
#include "shadow_model.h"

#include <cstdio>
#include <cstring>
#include <iterator>

namespace hakmem_test {

namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
constexpr size_t kEdgeBytes = 64;

uint64_t WordAt(uint64_t stamp, size_t offset) { return stamp + (offset / sizeof(uint64_t)) * kStep; }

/* Calls visit(offset, bytes) for each place that carries the pattern, in ascending order, until it returns false.
 * `bytes` is 8 but at the very end of a block whose size is no multiple of 8. */
template <typename Visit>
bool VisitPlaces(size_t size, Visit visit) {
  size_t words_end = size / sizeof(uint64_t) * sizeof(uint64_t);
  if (size <= kFullPatternBytes) {
    for (size_t offset = 0; offset < words_end; offset += sizeof(uint64_t)) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
  } else {
    size_t stride = size < (size_t{1} << 20) ? 1024 : 4096;
    size_t tail = words_end - kEdgeBytes;
    for (size_t offset = 0; offset < kEdgeBytes; offset += sizeof(uint64_t)) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
    for (size_t offset = stride; offset < tail; offset += stride) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
    for (size_t offset = tail; offset < words_end; offset += sizeof(uint64_t)) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
  }
  return words_end == size || visit(words_end, size - words_end);
}

} /* namespace */

void FillPattern(void *start, size_t size, uint64_t stamp) {
  char *bytes = static_cast<char *>(start);
  VisitPlaces(size, [=](size_t offset, size_t count) {
    uint64_t word = WordAt(stamp, offset);
    if (count == sizeof word) {
      std::memcpy(bytes + offset, &word, sizeof word); /* a constant size: one store */
    } else {
      std::memcpy(bytes + offset, &word, count);
    }
    return true;
  });
}

size_t FindBrokenPattern(const void *start, size_t size, size_t limit, uint64_t stamp) {
  const char *bytes = static_cast<const char *>(start);
  size_t broken = kIntact;
  VisitPlaces(size, [&](size_t offset, size_t count) {
    if (offset >= limit) return false;
    if (count > limit - offset) count = limit - offset;
    uint64_t expected = WordAt(stamp, offset), found = expected;
    if (count == sizeof found) {
      std::memcpy(&found, bytes + offset, sizeof found);
    } else {
      std::memcpy(&found, bytes + offset, count);
    }
    if (found == expected) return true;
    broken = offset;
    return false;
  });
  return broken;
}

size_t FindNonZero(const void *start, size_t size) {
  const char *bytes = static_cast<const char *>(start);
  if (size == 0) return kIntact;
  /* All bytes are zero if the first is and each equals its successor: memcmp is the fastest loop at hand. */
  if (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0) return kIntact;
  size_t offset = 0;
  while (bytes[offset] == 0) offset++;
  return offset;
}

bool ShadowModel::Fail(const Block &block, const char *what, size_t detail) {
  char text[400];
  std::snprintf(text, sizeof text,
                "block %p (%zu bytes requested, %zu usable, aligned to %zu): %s (0x%zx); %zu blocks live, %zu bytes",
                static_cast<void *>(block.start), block.requested, block.usable, block.alignment, what, detail,
                blocks_.size(), live_bytes_);
  if (problem_.empty()) problem_ = text; /* the first is the cause, the others may be its consequences */
  return false;
}

bool ShadowModel::Occupy(const Block &block) {
  uintptr_t start = reinterpret_cast<uintptr_t>(block.start), end = start + block.usable;
  if (block.start == nullptr) return Fail(block, "is NULL", 0);
  if (start % block.alignment != 0) return Fail(block, "is not aligned", start % block.alignment);
  if (start % 16 != 0) return Fail(block, "is not aligned to 16", start % 16);
  if (block.usable < block.requested) return Fail(block, "is smaller than requested", block.usable);
  /* Blocks of no usable bytes could share a start otherwise. */
  if (end == start) end = start + 1;
  auto after = intervals_.lower_bound(start);
  if (after != intervals_.end() && after->first < end) return Fail(block, "overlaps the block at", after->first);
  if (after != intervals_.begin()) {
    auto before = std::prev(after);
    if (before->second > start) return Fail(block, "overlaps the block at", before->first);
  }
  intervals_.emplace_hint(after, start, end);
  live_bytes_ += block.usable;
  return true;
}

void ShadowModel::Vacate(const Block &block) {
  intervals_.erase(reinterpret_cast<uintptr_t>(block.start));
  live_bytes_ -= block.usable;
}

bool ShadowModel::Add(void *start, size_t requested, size_t usable, size_t alignment, Contents contents) {
  Block block{static_cast<char *>(start), requested, usable, alignment, next_stamp_};
  next_stamp_ = next_stamp_ * 6364136223846793005u + 1442695040888963407u;
  if (!Occupy(block)) return false;
  if (contents == Contents::kZero) {
    size_t offset = FindNonZero(start, requested);
    if (offset != kIntact) return Fail(block, "is not zero at offset", offset);
  }
  FillPattern(start, usable, block.stamp);
  blocks_.push_back(block);
  return true;
}

bool ShadowModel::Check(size_t index, size_t usable_now) {
  const Block &block = blocks_[index];
  if (usable_now != 0 && usable_now != block.usable) return Fail(block, "has another usable size now", usable_now);
  size_t offset = FindBrokenPattern(block.start, block.usable, block.usable, block.stamp);
  return offset == kIntact || Fail(block, "lost its contents at offset", offset);
}

bool ShadowModel::Remove(size_t index) {
  if (!Check(index)) return false;
  Vacate(blocks_[index]);
  blocks_[index] = blocks_.back();
  blocks_.pop_back();
  return true;
}

bool ShadowModel::Replace(size_t index, void *start, size_t requested, size_t usable) {
  Block &block = blocks_[index];
  Vacate(block);
  size_t old_usable = block.usable;
  block.start = static_cast<char *>(start);
  block.requested = requested;
  block.usable = usable;
  block.alignment = 16; /* realloc promises no more, whatever the block had before */
  if (!Occupy(block)) return false;
  /* A program may use all of its usable bytes, so all of them move. */
  size_t kept = old_usable < requested ? old_usable : requested;
  size_t offset = FindBrokenPattern(start, old_usable, kept, block.stamp);
  if (offset != kIntact) return Fail(block, "lost its contents in realloc at offset", offset);
  FillPattern(start, usable, block.stamp);
  return true;
}

bool ShadowModel::CheckAll() {
  for (size_t index = 0; index < blocks_.size(); index++) {
    if (!Check(index)) return false;
  }
  return true;
}

} /* namespace hakmem_test */
