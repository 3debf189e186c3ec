/* policy/size_class.h - L2. The block size that serves a request of up to 32 KiB. All of it is arithmetic: no table has
 * to be kept consistent.
 *
 * Tiny classes 1 to 64 are the multiples of 16 bytes up to 1 KiB. Class 0 has no blocks: its list is always empty, so a
 * request of 0 bytes takes the slow path without a test of its own. Mid classes 65 to 104 divide each doubling up to 32
 * KiB by eight, so at most 1/9 of a block is not requested.
 *
 * Blocks lie in spans of one to four slabs. No block crosses from one slab into the next, so the pointer's low 16 bits
 * are the block's offset in its slab. The end of a slab that holds no whole block is never touched: it costs addresses,
 * not memory.
 */
#ifndef HK_POLICY_SIZE_CLASS_H
#define HK_POLICY_SIZE_CLASS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/units.h"
#include "policy/safety.h"

/* ---- Chosen. */

/* Mid classes per doubling, as a shift. */
#define HK_MID_STEP_SHIFT 3
/* A span has room for at least this many blocks, which share the cost of acquiring and releasing a slab. */
#define HK_SPAN_MIN_BLOCKS 8u

/* ---- Derived. */

#define HK_TINY_CLASS_MAX ((unsigned)(HK_TINY_MAX_BYTES / HK_BLOCK_ALIGNMENT))
#define HK_CLASS_COUNT (HK_TINY_CLASS_MAX + 1 + (5u << HK_MID_STEP_SHIFT))
#define HK_SPAN_MAX_SLABS 4u

static_assert(HK_MID_MAX_BYTES == HK_TINY_MAX_BYTES << 5, "mid classes span five doublings");
static_assert(HK_SPAN_MAX_SLABS * (HK_SLAB_BYTES / HK_MID_MAX_BYTES) >= HK_SPAN_MIN_BLOCKS,
              "the longest span has room for enough of the largest blocks");

/* Requires `size` of at most HK_TINY_MAX_BYTES; 0 gives class 0. */
HK_INLINE unsigned hk_class_of_tiny(size_t size) {
  return (unsigned)((size + HK_BLOCK_ALIGNMENT - 1) / HK_BLOCK_ALIGNMENT);
}

/* Requires `size` above HK_TINY_MAX_BYTES, up to HK_MID_MAX_BYTES. With e = floor(log2(size - 1)) - 3, the doubling's
 * step is 2^e, and (size - 1) >> e runs from 8 to 15 in it: e * 8 + that number counts the classes without a gap. */
HK_INLINE unsigned hk_class_of_mid(size_t size) {
  size_t last = size - 1;
  unsigned step_shift = hk_highest_bit(last) - HK_MID_STEP_SHIFT;
  return (unsigned)((step_shift << HK_MID_STEP_SHIFT) + (last >> step_shift) + 1);
}

HK_INLINE bool hk_class_is_mid(unsigned class_index) { return class_index > HK_TINY_CLASS_MAX; }

HK_INLINE unsigned hk_class_of(size_t size) {
  return size <= HK_TINY_MAX_BYTES ? hk_class_of_tiny(size) : hk_class_of_mid(size);
}

/* The largest request that a small block serves. */
#define HK_SMALL_MAX_BYTES (HK_MID_MAX_BYTES - HK_CANARY_BYTES)

/* Returns the bytes of a small block that holds a request, with its canary. */
HK_INLINE size_t hk_block_bytes_for(size_t size) {
  return size <= SIZE_MAX - HK_CANARY_BYTES ? size + HK_CANARY_BYTES : size;
}

/* Returns the class for a request of at most HK_SMALL_MAX_BYTES. */
HK_INLINE unsigned hk_class_of_request(size_t size) {
  size_t bytes = hk_block_bytes_for(size);
  return hk_class_of(bytes > 0 ? bytes : 1);
}

/* Returns the size of a class's blocks in bytes; class 0 gives 0. */
HK_INLINE size_t hk_class_bytes(unsigned class_index) {
  if (class_index <= HK_TINY_CLASS_MAX) return class_index * HK_BLOCK_ALIGNMENT;
  unsigned number = class_index - 1;
  unsigned step_shift = (number >> HK_MID_STEP_SHIFT) - 1;
  unsigned steps = (number & ((1u << HK_MID_STEP_SHIFT) - 1)) + (1u << HK_MID_STEP_SHIFT) + 1;
  return (size_t)steps << step_shift;
}

/* Returns the smallest coarse class whose blocks are no smaller. Up to 64 bytes every class is coarse; above, two in
 * each doubling are. Coarse classes serve tiny classes of which a heap needs few blocks (heap/refill.h). Requires a
 * tiny class. */
HK_INLINE unsigned hk_class_coarse(unsigned class_index) {
  size_t bytes = hk_class_bytes(class_index);
  size_t step = bytes > 4 * HK_BLOCK_ALIGNMENT ? (size_t)1 << (hk_highest_bit(bytes - 1) - 1) : HK_BLOCK_ALIGNMENT;
  return hk_class_of_tiny((bytes + step - 1) & ~(step - 1));
}

/* Returns the bytes of a class's blocks that the program may use. */
HK_INLINE size_t hk_class_usable_bytes(unsigned class_index) { return hk_class_bytes(class_index) - HK_CANARY_BYTES; }

/* Returns the number of a class's blocks in one slab. */
HK_INLINE unsigned hk_class_blocks_per_slab(unsigned class_index) {
  return (unsigned)(HK_SLAB_BYTES / hk_class_bytes(class_index));
}

/* Returns the number of slabs in a span of the class: 1 to HK_SPAN_MAX_SLABS. */
HK_INLINE unsigned hk_class_span_slabs(unsigned class_index) {
  unsigned per_slab = hk_class_blocks_per_slab(class_index);
  return (HK_SPAN_MIN_BLOCKS + per_slab - 1) / per_slab;
}

/* Chosen: a short span is so long that its end, which holds no whole block, is at most this share of it. */
#define HK_SHORT_SPAN_END_SHARE 16

/* Returns the bytes of a short span of the class (space/short_span.h): whole pages, at most a slab. */
HK_INLINE size_t hk_class_short_bytes(unsigned class_index, size_t page_bytes) {
  size_t block_bytes = hk_class_bytes(class_index), bytes = hk_align_up(block_bytes, page_bytes);
  while (bytes < HK_SLAB_BYTES && bytes % block_bytes > bytes / HK_SHORT_SPAN_END_SHARE) bytes += page_bytes;
  return bytes < HK_SLAB_BYTES ? bytes : HK_SLAB_BYTES;
}

/* Chosen: the free bytes that a mid class's list may hold at first and at most, by how many it may grow at once, and
 * bounds of its number of blocks (measured: docs/experiments/2026-11-25-bursts-of-frees.md). */
#define HK_ROOM_FIRST_BYTES (32 * HK_KIB)
#define HK_ROOM_AT_ONCE_BYTES (256 * HK_KIB)
#define HK_ROOM_MAX_BYTES HK_MIB
#define HK_ROOM_MIN_BLOCKS 4u
#define HK_ROOM_MAX_BLOCKS 128u

/* Returns the number of a mid class's blocks in `bytes` bytes, within those bounds. */
HK_INLINE unsigned hk_class_room(unsigned class_index, size_t bytes) {
  size_t room = bytes / hk_class_bytes(class_index);
  return (unsigned)(room < HK_ROOM_MIN_BLOCKS   ? HK_ROOM_MIN_BLOCKS
                    : room > HK_ROOM_MAX_BLOCKS ? HK_ROOM_MAX_BLOCKS
                                                : room);
}

/* Returns the smallest class for `size` bytes whose blocks are all aligned, because they start at multiples of their
 * size. Returns 0 when there is none. */
HK_INLINE unsigned hk_class_of_aligned(size_t alignment, size_t size) {
  if (size > HK_MID_MAX_BYTES || alignment > HK_MID_MAX_BYTES) return 0;
  size_t least = hk_align_up(size > 0 ? size : 1, alignment);
  if (least > HK_MID_MAX_BYTES) return 0;
  for (unsigned i = hk_class_of(least); i < HK_CLASS_COUNT; i++) {
    if (hk_is_aligned(hk_class_bytes(i), alignment)) return i;
  }
  return 0;
}

/* Returns where the class's blocks start in a slab (policy/safety.h). Requires a class with blocks. */
HK_INLINE hk_starts_t hk_class_starts(unsigned class_index) {
  uint32_t bytes = (uint32_t)hk_class_bytes(class_index), inverse = UINT32_MAX / bytes + 1;
  uint32_t excess = inverse * bytes; /* less 2^32 */
  return (hk_starts_t){.inverse = inverse, .limit = (hk_class_blocks_per_slab(class_index) - 1) * excess + 1};
}

#endif /* HK_POLICY_SIZE_CLASS_H */
