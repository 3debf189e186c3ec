/* api/realloc.c - L5. Reallocation: the slow half of alloc.h. */
#include <errno.h>
#include <string.h>

#include "api/alloc.h"
#include "api/misuse.h"
#include "api/process_purge.h"
#include "api/purge_thread.h"
#include "api/sample_hook.h"
#include "api/sampled.h"
#include "api/verify.h"
#include "base/arithmetic.h"
#include "base/bits.h"
#include "hakmem/hakmem.h"
#include "heap/handover.h"
#include "heap/part.h"
#include "heap/span.h"
#include "policy/sampling.h"
#include "policy/stat.h"
#include "space/large.h"
#include "space/live_bit.h"
#include "space/run.h"

static bool is_small(size_t size) { return size <= HK_SMALL_MAX_BYTES; }

/* ---- Reallocation in place. */

/* Returns whether a small block of `bytes` stays where it is. A block that would be more than half empty moves, if a
 * smaller block size exists. */
static bool stays(size_t bytes, size_t size) {
  return size <= bytes && (size >= bytes / 2 || hk_good_size(size) == bytes);
}

/* Notes in a hardened build that a small block of `bytes` usable bytes may have another size than its class serves.
 * Returns the block. */
HK_INLINE void *note_resized(void *block, size_t bytes) {
  if (HK_HARDENED) hk_handover_note_resized(block, bytes + HK_CANARY_BYTES);
  return block;
}

/* Resizes the block in place, moves its pages, or copies a large block where that is cheaper. A sampled block is not
 * copied: its entry is gone (resize_sample), and without it the old place cannot be freed. Returns the block, or NULL
 * when none of these is possible. */
static void *resize_unnamed(const hk_finding_t *finding, void *block, size_t size) {
  char *start = (char *)finding->start;
  size_t whole = finding->offset + size;
  bool is_copied = false, may_copy = finding->offset == 0;
  switch (hk_slab_state(finding->slab)) {
    case hk_slab_small:
      if (!stays(finding->bytes, size)) return NULL;
      (void)note_resized(start, finding->offset + finding->bytes);
      return block;
    case hk_slab_run:
      if (is_small(size) || whole > HK_SUPERSLAB_BYTES || !hk_run_resize(finding->slab, whole)) return NULL;
      break;
    case hk_slab_large:
      if (HK_HARDENED ? is_small(size) : whole <= HK_RUN_MAX_BYTES) return NULL;
      start = hk_large_resize(finding->slab, start, whole, may_copy ? &is_copied : NULL);
      if (start == NULL) return NULL;
      break;
    default:
      return NULL;
  }
  if (is_copied) {
    hk_thread_count(hk_stat_large_alloc);
    hk_free(block);
  } else {
    hk_thread_count(hk_stat_realloc_in_place);
  }
  return start + finding->offset;
}

/* Returns the bytes that a larger block has when it is resized in place. In a hardened build only a block that is a
 * mapping of its own has whole pages. */
static size_t bytes_in_place(const hk_slab_t *slab, size_t whole) {
  size_t bytes = hk_slab_good_size(whole);
  bool has_pages = !HK_HARDENED || (hk_slab_state(slab) == hk_slab_large && slab->is_lone);
  return has_pages || bytes == 0 ? bytes : hk_align_up(bytes, HK_SLAB_BYTES);
}

/* Resizes a larger block of a named heap or tag, and charges the difference. The block leaves its list meanwhile,
 * because its descriptor may become another one. */
static HK_NOINLINE void *resize_named(const hk_finding_t *finding, void *block, size_t size) {
  size_t old_bytes = hk_load_relaxed(&finding->slab->bytes), whole = finding->offset + size, charged = 0;
  size_t wanted = bytes_in_place(finding->slab, whole), more_bytes = wanted > old_bytes ? wanted - old_bytes : 0;
  if (is_small(size) || wanted == 0) return NULL;
  hk_named_t *named = finding->slab->named;
  if (more_bytes > 0 && !hk_named_reserve(named, more_bytes, &charged)) return NULL;
  if (hk_named_withdraw_larger(finding->slab, &old_bytes) == NULL) { /* another thread frees the block: misuse */
    if (more_bytes > 0) hk_named_settle(named, more_bytes, charged, false);
    return NULL;
  }
  void *same = resize_unnamed(finding, block, size);
  if (more_bytes > 0) hk_named_settle(named, more_bytes, charged, same != NULL);
  char *start = (char *)(same != NULL ? same : block) - finding->offset;
  bool has_moved = same != NULL && same != block; /* counts as a block that was allocated, and one that was freed */
  hk_named_add_larger(named, start, same != NULL ? old_bytes + more_bytes : old_bytes, has_moved ? 0 : old_bytes);
  return same;
}

static void *resize(const hk_finding_t *finding, void *block, size_t size) {
  bool is_larger = hk_named_is_larger(finding->slab); /* a block of no bytes, in a hardened build, names no heap */
  if (HK_UNLIKELY(is_larger && finding->slab->named != NULL)) return resize_named(finding, block, size);
  return resize_unnamed(finding, block, size);
}

/* ---- Reallocation by a copy. A block stays in its named heap or tag: the thread is switched to its part of that while
 * it allocates the new place. */

/* A block that grows by less than three eighths will likely grow again. It gets three eighths at once, so that copies
 * are rarer (measured: docs/experiments/2026-11-24-appending.md). */
static size_t with_room_to_grow(size_t bytes, size_t size) {
  size_t roomy = bytes + bytes / 4 + bytes / 8;
  return size > bytes && size < roomy && roomy <= HK_RUN_MAX_BYTES ? roomy : size;
}

/* A block stays in place while at least half of it is in use. A block that moves gets up to eleven eighths of its size
 * (with_room_to_grow), which is less than the half more that is compared here. */
bool hk_realloc_may_give(size_t size, size_t bytes) {
  return hk_good_size(size) >= bytes / 2 || hk_good_size(size + size / 2) >= bytes;
}

/* Moves a run that grows to where it has room to grow further, so that it need not move again. Its old slabs go back to
 * the superslab, where a neighbour may grow into them. Returns NULL when there is no such place. */
static void *move_to_room(void *block, size_t bytes, size_t wanted) {
  if (HK_HARDENED || bytes <= HK_MID_MAX_BYTES || wanted <= bytes || wanted > HK_RUN_MAX_BYTES) return NULL;
  if (HK_UNLIKELY(hk_part_current() != NULL)) return NULL; /* a limit may bound it */
  void *moved = hk_run_alloc_roomy(wanted);
  if (moved == NULL) return NULL;
  hk_thread_count(hk_stat_run_alloc);
  hk_purge_thread_consider();
  hk_process_purge_consider();
  memcpy(moved, block, bytes);
  if (hk_run_free(hk_slab_of(block))) {
    hk_thread_count(hk_stat_run_free);
  } else {
    hk_free(block);
  }
  return moved;
}

static void note_room(void *block) {
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict == hk_verdict_live && !finding.is_guarded && hk_slab_state(finding.slab) == hk_slab_small)
    (void)note_resized((void *)finding.start, finding.slab->block_bytes - HK_CANARY_BYTES);
}

/* Returns the old block, where the system or a limit refuses a smaller one. A hardened build compares the size that a
 * free tells, so it notes that this block is longer than the request. A sampled or guarded block needs no note. */
static HK_COLD void *keep_old(void *block) {
  if (!HK_HARDENED) return block;
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict != hk_verdict_live || finding.is_guarded || finding.offset != 0) return block;
  if (hk_slab_state(finding.slab) == hk_slab_small) {
    hk_handover_note_unshrunk(block, finding.slab->block_bytes);
  } else if (hk_named_is_larger(finding.slab)) {
    finding.slab->is_unshrunk = true;
  }
  return block;
}

/* Returns a new block of `wanted` bytes, or else of `size`; NULL where there is neither. Then it sets errno, unless the
 * old block of `bytes` has room for `size`. */
static HK_NOINLINE void *alloc_new_slow(size_t bytes, size_t size, size_t wanted) {
  int saved_errno = errno;
  void *block = hk_alloc_roomy_slow(size, wanted);
  if (block == NULL && wanted > size) {
    block = hk_alloc(size);
    if (block != NULL) errno = saved_errno;
  }
  if (block == NULL && size <= bytes) errno = saved_errno;
  return block;
}

/* Moves the block to one of `wanted` bytes, or else of `size`, which is at most `wanted`. */
static void *copy_to_new(void *block, size_t bytes, size_t size, size_t wanted) {
  void *moved = hk_alloc_fast(wanted);
  if (HK_UNLIKELY(moved == NULL)) moved = alloc_new_slow(bytes, size, wanted);
  if (HK_UNLIKELY(moved == NULL)) return size > bytes ? NULL : keep_old(block);
  memcpy(moved, block, size < bytes ? size : bytes);
  hk_free(block);
  if (HK_HARDENED && wanted > size && is_small(wanted)) note_room(moved);
  return moved;
}

/* Returns the block's named heap or tag, if the thread has to switch to it before it allocates. */
HK_INLINE hk_named_t *other_than_current(hk_named_t *named) {
  return HK_LIKELY(named == NULL || named == hk_part_current()) ? NULL : named;
}
HK_INLINE hk_named_t *other_named(const hk_slab_t *slab) { return other_than_current(hk_named_of_slab(slab)); }

/* Moves a block, of which `bytes` are in use. `weight_q16` is 0 unless the larger block is to be a sample. */
typedef void *(*move_t)(void *block, size_t bytes, size_t size, uint64_t weight_q16);

static void *move_unnamed(void *block, size_t bytes, size_t size, uint64_t weight_q16) {
  (void)weight_q16;
  size_t wanted = with_room_to_grow(bytes, size);
  void *moved = move_to_room(block, bytes, wanted);
  return moved != NULL ? moved : copy_to_new(block, bytes, size, wanted);
}

/* Moves a block of a named heap or tag that the thread is not switched to. */
static HK_NOINLINE void *move_named(hk_named_t *named, void *block, size_t bytes, size_t size, uint64_t weight_q16,
                                    move_t move_block) {
  hk_part_switch_t entered = hk_part_enter(named);
  if (entered.part == NULL) return size > bytes ? hk_alloc_fail() : keep_old(block);
  void *moved = move_block(block, bytes, size, weight_q16);
  hk_part_leave(&entered);
  return moved;
}

HK_INLINE void *move(const hk_slab_t *slab, void *block, size_t bytes, size_t size) {
  hk_named_t *named = other_named(slab);
  if (HK_UNLIKELY(named != NULL)) return move_named(named, block, bytes, size, 0, move_unnamed);
  if (HK_LIKELY(bytes <= HK_MID_MAX_BYTES)) return copy_to_new(block, bytes, size, with_room_to_grow(bytes, size));
  return move_unnamed(block, bytes, size, 0);
}

/* hk_span_has_block for the slab that the address lies in, without a call. */
HK_INLINE bool slab_has_block(const hk_slab_t *slab, const void *block) {
  uint16_t offset = (uint16_t)(uintptr_t)block;
  if (!hk_starts_has(&slab->starts, offset) || (uintptr_t)block >> HK_ADDRESS_BITS != 0) return false;
  const hk_slab_t *span = slab->head;
  unsigned index = hk_starts_divide(&slab->starts, offset);
  if (slab != span) index += (unsigned)(slab - span) * hk_starts_divide(&slab->starts, HK_SLAB_BYTES);
  return index < hk_span_carved(span);
}

/* Returns whether the fast test finds a block in use that holds no sample. Returns false also for a few such blocks,
 * which hk_verify then finds live. */
HK_INLINE bool is_plainly_live(const hk_slab_t *slab, const void *block) {
  if (!HK_HARDENED) return !hk_block_may_look_free(block);
  return hk_block_is_in_use(block) && hk_handover_canary_is_whole((void *)block, slab->block_bytes);
}

/* Returns the usable bytes of a live small block of the caller's heap; 0 for every other address, and for a few such
 * blocks (is_plainly_live). */
HK_INLINE size_t own_small_bytes(const void *block) {
  const hk_slab_t *slab = hk_slab_of(block);
  if (!hk_thread_has(hk_slab_owner(slab))) return 0;
  return slab_has_block(slab, block) && is_plainly_live(slab, block) ? slab->block_bytes - HK_CANARY_BYTES : 0;
}

static void *move_large_unnamed(void *block, size_t bytes, size_t size, uint64_t weight_q16) {
  bool is_zero;
  void *moved = NULL;
  if (weight_q16 != 0)
    moved = hk_alloc_sampled(size, HK_BLOCK_ALIGNMENT, hk_slab_good_size(size), weight_q16, &is_zero);
  if (moved == NULL) moved = hk_alloc_large_unsampled(with_room_to_grow(bytes, size), HK_BLOCK_ALIGNMENT, &is_zero);
  if (moved == NULL) moved = hk_alloc_large_unsampled(size, HK_BLOCK_ALIGNMENT, &is_zero);
  if (moved == NULL) return size > bytes ? hk_alloc_fail() : keep_old(block);
  memcpy(moved, block, size < bytes ? size : bytes);
  hk_free(block);
  return moved;
}

static void *move_large(const hk_slab_t *slab, void *block, size_t bytes, size_t size, uint64_t weight_q16) {
  hk_named_t *named = other_named(slab);
  if (HK_LIKELY(named == NULL)) return move_large_unnamed(block, bytes, size, weight_q16);
  return move_named(named, block, bytes, size, weight_q16, move_large_unnamed);
}

/* Enters a sampled block anew at `block`, after its resize or an attempt. When there is no room for the entry, the
 * block becomes an unsampled one: its contents move to the start of the block that holds it. Returns the program's
 * address. */
static void *enter_again(const hk_finding_t *finding, void *block, size_t size, uint64_t weight_q16) {
  size_t bytes = hk_slab_good_size(size);
  if (hk_sample_hook_note((uintptr_t)block, finding->offset, size, bytes, weight_q16)) return block;
  /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a block that stays where it is is not NULL */
  return memmove((char *)block - finding->offset, block, size);
}

/* Resizes a sampled block. Its entry goes first: once the block has moved, another thread can get a sample at its old
 * address. Where the resize fails, `*block` is entered without a weight, so that it can be freed. */
static void *resize_sample(const hk_finding_t *finding, void **block, size_t size, uint64_t weight_q16) {
  (void)hk_sample_hook_forget((uintptr_t)*block, false);
  void *same = resize(finding, *block, size);
  if (same != NULL) return enter_again(finding, same, size, weight_q16);
  *block = enter_again(finding, *block, finding->bytes, 0);
  return NULL;
}

/* Resizes a run or large block that is sampled, or while the profile runs. hk_sampled_weight_after decides whether the
 * block is a sample at its new size. */
static HK_NOINLINE void *realloc_large(const hk_finding_t *finding, void *block, size_t size) {
  size_t bytes = finding->bytes;
  uint64_t weight_q16 = hk_sampled_weight_after((uintptr_t)block, finding->offset != 0, bytes, hk_slab_good_size(size));
  void *same = NULL;
  if (finding->offset != 0) {
    same = resize_sample(finding, &block, size, weight_q16);
  } else if (weight_q16 == 0) {
    same = resize(finding, block, size);
  }
  if (same != NULL) return same;
  return move_large(finding->slab, block, bytes, size, weight_q16);
}

static void *move_guarded_unnamed(void *block, size_t bytes, size_t size, uint64_t weight_q16) {
  (void)weight_q16;
  return copy_to_new(block, bytes, size, size);
}

/* A guarded block always moves: its old address is protected from then on. */
static HK_NOINLINE void *move_guarded(const hk_finding_t *finding, void *block, size_t size) {
  hk_named_t *named = other_than_current(hk_finding_named(finding));
  if (named != NULL) return move_named(named, block, finding->bytes, size, 0, move_guarded_unnamed);
  return move_guarded_unnamed(block, finding->bytes, size, 0);
}

static void *realloc_live(const hk_finding_t *finding, void *block, size_t size) {
  if (HK_UNLIKELY(finding->is_guarded)) return move_guarded(finding, block, size);
  bool is_large = hk_slab_state(finding->slab) != hk_slab_small && !is_small(size);
  if (HK_UNLIKELY(is_large && (finding->offset != 0 || hk_sampling_has_profile())))
    return realloc_large(finding, block, size);
  void *same = resize(finding, block, size);
  return same != NULL ? same : move(finding->slab, block, finding->bytes, size);
}

static void *realloc_unusual(void *block, size_t size) {
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict != hk_verdict_live) {
    hk_misuse_address(hk_act_realloc, block);
    return hk_alloc_fail();
  }
  if (size > (size_t)PTRDIFF_MAX) return hk_alloc_fail();
  hk_named_t *named = hk_finding_named(&finding); /* first: the resize changes the descriptor */
  void *there = realloc_live(&finding, block, size);
  if (HK_UNLIKELY(named != NULL)) hk_alloc_follow_soft_limit(named);
  return there;
}

/* `bytes` is own_small_bytes of the block: 0, or at least `size`. */
static HK_NOINLINE void *realloc_slow(void *block, size_t size, size_t bytes) {
  if (block == NULL) return hk_alloc(size);
  if (size == 0) {
    hk_free(block);
    return NULL;
  }
  if (bytes == 0) return realloc_unusual(block, size);
  return stays(bytes, size) ? note_resized(block, bytes) : move(hk_slab_of(block), block, bytes, size);
}

/* Requires `size` above `bytes`, which is own_small_bytes of the block. */
static HK_NOINLINE void *grow(void *block, size_t size, size_t bytes) {
  return move(hk_slab_of(block), block, bytes, size);
}

/* The common cases by themselves, without a stack frame: a small block of the caller's heap that stays where it is, or
 * grows beyond its place. */
void *hk_realloc(void *block, size_t size) {
  size_t bytes = own_small_bytes(block);
  if (HK_LIKELY(bytes != 0 && size <= bytes && size >= bytes / 2)) return note_resized(block, bytes);
  if (HK_LIKELY(bytes != 0 && size > bytes)) return grow(block, size, bytes);
  return realloc_slow(block, size, bytes);
}

/* ---- Reallocation with an alignment. */

/* Resizes a live block without a copy. Resizing in place or by moving pages keeps an address's offset within a slab,
 * so it keeps alignments up to a slab's size. While the profile runs, runs and large blocks are allocated anew, because
 * the new size may be a sample. Returns NULL where the caller has to copy. */
static void *resize_aligned(const hk_finding_t *finding, void *block, size_t alignment, size_t size) {
  if (alignment > HK_SLAB_BYTES || (uintptr_t)block % alignment != 0 || finding->is_guarded) return NULL;
  if (hk_slab_state(finding->slab) != hk_slab_small && (finding->offset != 0 || hk_sampling_has_profile())) return NULL;
  return resize(finding, block, size);
}

static void *move_aligned(const hk_finding_t *finding, hk_named_t *named, void *block, size_t alignment, size_t size) {
  hk_named_t *other = other_than_current(named);
  hk_part_switch_t entered = {.part = NULL};
  if (HK_UNLIKELY(other != NULL) && (entered = hk_part_enter(other)).part == NULL) return hk_alloc_fail();
  void *moved = hk_alloc_aligned(alignment, size);
  hk_part_leave(&entered);
  if (moved == NULL) return NULL;
  memcpy(moved, block, size < finding->bytes ? size : finding->bytes);
  hk_free(block);
  return moved;
}

static void *realloc_aligned(void *block, size_t alignment, size_t size) {
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict != hk_verdict_live) {
    hk_misuse_address(hk_act_realloc, block);
    return hk_alloc_fail();
  }
  if (size > (size_t)PTRDIFF_MAX) return hk_alloc_fail();
  hk_named_t *named = hk_finding_named(&finding);
  void *there = resize_aligned(&finding, block, alignment, size);
  if (there == NULL) there = move_aligned(&finding, named, block, alignment, size);
  if (HK_UNLIKELY(named != NULL)) hk_alloc_follow_soft_limit(named);
  return there;
}

void *hakmem_aligned_realloc(void *block, size_t alignment, size_t size) {
  if (!hk_is_power_of_two(alignment)) {
    errno = EINVAL;
    return NULL;
  }
  if (alignment <= HK_BLOCK_ALIGNMENT || (block != NULL && size == 0)) return hk_realloc(block, size);
  return block != NULL ? realloc_aligned(block, alignment, size) : hk_alloc_aligned(alignment, size);
}

void *hakmem_realloc(void *block, size_t size) { return hk_realloc(block, size); }

void *hakmem_reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  return hk_multiply(count, size, &bytes) ? hk_realloc(block, bytes) : hk_alloc_fail();
}
