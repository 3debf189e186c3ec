/* See shadow_model.h. */
#include "shadow_model.h"

#include <cstdio>
#include <iterator>

namespace hk_test {

bool ShadowModel::Fail(const Block &block, const char *what, size_t detail) {
  char text[400];
  std::snprintf(text, sizeof text,
                "block %p (%zu bytes requested, %zu usable, aligned to %zu): %s (0x%zx); %zu blocks live, %zu bytes",
                static_cast<void *>(block.start), block.requested, block.usable, block.alignment, what, detail,
                blocks_.size(), live_bytes_);
  if (problem_.empty()) problem_ = text; /* later problems may follow from the first */
  return false;
}

bool ShadowModel::Occupy(const Block &block) {
  uintptr_t start = reinterpret_cast<uintptr_t>(block.start), end = start + block.usable;
  if (block.start == nullptr) return Fail(block, "is NULL", 0);
  if (start % block.alignment != 0) return Fail(block, "is not aligned", start % block.alignment);
  if (start % 16 != 0) return Fail(block, "is not aligned to 16", start % 16);
  if (block.usable < block.requested) return Fail(block, "is smaller than requested", block.usable);
  /* Otherwise blocks without usable bytes could share a start. */
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

bool ShadowModel::Replace(size_t index, void *start, size_t requested, size_t usable, size_t alignment) {
  Block &block = blocks_[index];
  Vacate(block);
  size_t old_usable = block.usable;
  block.start = static_cast<char *>(start);
  block.requested = requested;
  block.usable = usable;
  block.alignment = alignment;
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

} /* namespace hk_test */
