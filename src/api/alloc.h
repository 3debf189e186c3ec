/* api/alloc.h - L5. The meaning of malloc, free, calloc and realloc. The fast paths are inline, so that the public
 * functions and the C library's names contain them without another call.
 *
 *   hk_alloc     -> hk_bin_pop, else hk_alloc_slow -> hk_refill or hk_alloc_large
 *                   hk_alloc_large -> hk_spare_take_run, hk_run_alloc, hk_large_alloc
 *   hk_free      -> hk_free_list_push, else hk_free_slow -> hk_remote_free, hk_spare_put_run, hk_large_free
 *                   and hk_free_countdown_over when the push ends a countdown
 */
#ifndef HK_API_ALLOC_H
#define HK_API_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/count.h"
#include "base/units.h"
#include "heap/bin.h"
#include "heap/heap.h"
#include "heap/thread.h"
#include "policy/safety.h"
#include "space/region_map.h"

HK_C_BEGIN

/* Allocates what the fast path cannot: a block up to 32 KiB whose bin gives none, and every larger block. Returns NULL
 * with ENOMEM. */
HK_NOINLINE void *hk_alloc_slow(size_t size) HK_NOTHROW;

/* Allocates a block of a class whose blocks have the alignment. Returns NULL with ENOMEM. */
void *hk_alloc_of_class(unsigned class_index, size_t alignment, size_t size);

/* Allocates a run or a large block: above 32 KiB, or with an alignment that no smaller block has. `alignment` is a
 * power of two. `*is_zero` says whether the block is known to be zero. Returns NULL with ENOMEM. */
void *hk_alloc_large(size_t size, size_t alignment, bool *is_zero);

/* hk_alloc_large for a request of no bytes: a guarded block or a sample then has no bytes, any other block has some. */
void *hk_alloc_large_empty(size_t alignment);

/* hk_alloc_large without sampling, for realloc. Returns NULL and leaves errno unchanged when there is no memory. */
HK_NOINLINE void *hk_alloc_large_unsampled(size_t size, size_t alignment, bool *is_zero);

/* hk_alloc_slow for a request of `size` bytes, 1 to `wanted`, that gets a block of `wanted` bytes. A guarded block has
 * `size` bytes, so that its padding begins behind the requested ones. */
HK_NOINLINE void *hk_alloc_roomy_slow(size_t size, size_t wanted);

/* Allocates a sampled block in the place of an unsampled one of `bytes`; 0: no block is that large. Returns NULL and
 * leaves errno unchanged when there is no memory, or no room to enter the sample. */
HK_NOINLINE void *hk_alloc_sampled(size_t size, size_t alignment, size_t bytes, uint64_t weight_q16, bool *is_zero);

/* hk_alloc_large for a block that is all zero, of `bytes` bytes. Returns NULL with ENOMEM. */
void *hk_calloc_large(size_t bytes, size_t alignment);

/* Allocates a block with any alignment, which is a power of two. Returns NULL with ENOMEM. */
void *hk_alloc_aligned(size_t alignment, size_t size);

/* Starts the library's threads and purges that are due, as each slow path does. */
void hk_alloc_consider_work(void);

/* Calls the named heap's callback, if its memory has risen above the soft limit. Requires that the thread is in no
 * switch to a named heap: the callback may do what the program may. */
void hk_alloc_follow_soft_limit(hk_named_t *named);

/* Counts a failed request, sets errno to ENOMEM and returns NULL. */
void *hk_alloc_fail(void);

/* Frees every block that is not a small block of the calling thread's heap. `slab` is hk_slab_of(block). */
HK_NOINLINE void hk_free_slow(void *block, hk_slab_t *slab) HK_NOTHROW;

/* Frees any block in a hardened build. */
void hk_free_hardened(void *block) HK_NOTHROW;

/* Returns whether the program may free the block as one of `size` bytes. Reports a size that the block cannot have been
 * requested with, and returns false. True in a build that is not hardened, and for an address that is no live block,
 * which the free reports. */
bool hk_told_size_fits(void *block, size_t size);

/* hk_told_size_fits for a block that the program frees with an alignment too. `alignment` may be any value: one that is
 * no power of two fits no block. */
bool hk_told_alignment_fits(void *block, size_t alignment, size_t size);

/* Handles the end of a countdown, after the push that ended it. */
HK_NOINLINE void hk_free_countdown_over(hk_slab_t *slab) HK_NOTHROW;

/* calloc and realloc, as hakmem.h describes them. */
void *hk_calloc(size_t count, size_t size);
void *hk_realloc(void *block, size_t size);

/* Returns whether realloc may give a block of `bytes` usable bytes to a request of `size`. */
bool hk_realloc_may_give(size_t size, size_t bytes);

/* hk_usable_size of runs, large and sampled blocks, NULL and implausible addresses. */
HK_NOINLINE size_t hk_usable_size_slow(const void *block);

/* Returns the usable bytes of a block of `size` bytes, or 0 when no block is that large. */
size_t hk_good_size(size_t size);
size_t hk_slab_good_size(size_t size); /* for sizes above 32 KiB */

/* Counts a request, in the counting build alone. */
HK_INLINE void hk_count_request(size_t size) {
  if (!HK_COUNT) return;
  hk_count(hk_count_malloc, 1);
  hk_count(hk_count_bytes_requested, size);
  hk_count(hk_count_bytes_usable, hk_good_size(size));
}

/* Returns a block from a bin of the heap, which the calling thread has; NULL when only the slow path may have one. */
HK_INLINE void *hk_alloc_pop(hk_heap_t *heap, size_t size) {
  if (HK_HARDENED && HK_UNLIKELY(size == 0)) return NULL; /* hk_alloc_slow has blocks of no bytes */
  size_t bytes = hk_block_bytes_for(size);
  if (HK_LIKELY(bytes <= HK_TINY_MAX_BYTES)) return hk_bin_pop(hk_heap_tiny_bin(heap, bytes));
  if (HK_LIKELY(bytes <= HK_MID_MAX_BYTES)) return hk_bin_pop_mid(hk_heap_mid_bin(heap, bytes));
  return NULL;
}

/* malloc, as hakmem.h describes it. hk_alloc_fast alone returns NULL when only the slow path may have a block. */
HK_INLINE void *hk_alloc_fast(size_t size) {
  hk_count_request(size);
  return hk_alloc_pop(hk_thread_own(), size);
}

HK_INLINE void *hk_alloc(size_t size) {
  void *block = hk_alloc_fast(size);
  return HK_LIKELY(block != NULL) ? block : hk_alloc_slow(size);
}

/* Returns whether an address in a slab of small blocks is plausibly a live block. Returns false also for a live block
 * that may look free: the slow path finds that it is live. */
HK_INLINE bool hk_is_plausible(hk_slab_place_t *slab, const void *block) {
  if (!HK_SAFETY) return true;
  return hk_start_is_plausible(&hk_slab_at(slab)->starts, (uint16_t)(uintptr_t)block) &&
         !hk_block_may_look_free((const hk_block_t *)block);
}

/* free, as hakmem.h describes it. */
HK_INLINE void hk_free(void *block) {
  hk_count(hk_count_free, 1);
  if (HK_HARDENED) {
    hk_free_hardened(block);
    return;
  }
  hk_slab_place_t slab = hk_slab_place_of(block);
  if (HK_UNLIKELY(!hk_thread_has(hk_load_relaxed(&hk_slab_at(&slab)->owner)))) {
    hk_free_slow(block, hk_slab_at(&slab));
    return;
  }
  if (HK_UNLIKELY(!hk_is_plausible(&slab, block))) {
    hk_free_slow(block, hk_slab_at(&slab));
    return;
  }
  if (HK_UNLIKELY(hk_free_list_push(hk_slab_at(&slab)->free_list, (hk_block_t *)block)))
    hk_free_countdown_over(hk_slab_at(&slab));
}

/* Free a block of which the program tells the size, or the alignment too. */
HK_INLINE void hk_free_sized(void *block, size_t size) {
  if (HK_HARDENED && !hk_told_size_fits(block, size)) return;
  hk_free(block);
}
HK_INLINE void hk_free_aligned_sized(void *block, size_t alignment, size_t size) {
  if (HK_HARDENED && !hk_told_alignment_fits(block, alignment, size)) return;
  hk_free(block);
}

/* Returns the block's usable bytes: 0 for NULL, and for an address that is no live block, after the report of the
 * misuse. Misuse that free does not detect is not detected here either. Any thread may ask about any block, because
 * nothing is written. Inline: some programs call it with each malloc and each free. */
HK_INLINE size_t hk_usable_size(const void *block) {
  if (HK_HARDENED) return hk_usable_size_slow(block);
  hk_slab_place_t slab = hk_slab_place_of(block);
  bool is_small = hk_load_relaxed(&hk_slab_at(&slab)->owner) != NULL && (uintptr_t)block >> HK_ADDRESS_BITS == 0;
  return HK_LIKELY(is_small && hk_is_plausible(&slab, block)) ? hk_slab_at(&slab)->block_bytes
                                                              : hk_usable_size_slow(block);
}

HK_C_END

#endif /* HK_API_ALLOC_H */
