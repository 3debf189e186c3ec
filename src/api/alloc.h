/* api/alloc.h - L5. What malloc, free, calloc and realloc mean. The fast paths are inline: the public functions and the
 * C library's names are each made of them, with nothing in between.
 *
 *   hk_alloc     -> hk_bin_pop, else hk_alloc_slow -> hk_refill, hk_alloc_large -> hk_spare_take, hk_run_alloc,
 *                   hk_large_alloc
 *   hk_free      -> hk_free_list_push, else hk_free_slow -> hk_remote_free, hk_spare_put, hk_large_free
 *                   and hk_free_due when the push said that something is due
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

/* A block of a class up to 32 KiB when its bin's list gives none, and every larger block. NULL with ENOMEM. */
HK_NOINLINE void *hk_alloc_slow(size_t size);

/* A block of a class whose blocks have the alignment. */
void *hk_alloc_of_class(unsigned class_index, size_t alignment, size_t size);

/* A block of more than 32 KiB, or one whose alignment no smaller block has. `alignment` is a power of two. `*zero` says
 * whether it is known to be zero. NULL with ENOMEM. */
void *hk_alloc_large(size_t size, size_t alignment, bool *zero);

/* For realloc: the same without a sample, and without ENOMEM: NULL, and errno as it was. */
HK_NOINLINE void *hk_alloc_large_unsampled(size_t size, size_t alignment, bool *zero);

/* A sampled block in the place of one of `bytes`; NULL when it cannot be had, and errno as it was. */
HK_NOINLINE void *hk_alloc_sampled(size_t size, size_t alignment, size_t bytes, uint64_t weight_q16, bool *zero);

/* Counts a request that failed. NULL with ENOMEM. */
void *hk_alloc_fail(void);

/* Every free that is not of a small block of the caller's own. `slab` is hk_slab_of(block). */
HK_NOINLINE void hk_free_slow(void *block, hk_slab_t *slab);

/* After a push that made something due. */
HK_NOINLINE void hk_free_due(hk_slab_t *slab);

void *hk_calloc(size_t count, size_t size);
void *hk_realloc(void *block, size_t size);

/* hk_usable_size of all that is no small block, and of one that something speaks against. */
HK_NOINLINE size_t hk_usable_size_slow(const void *block);

/* What hk_usable_size of a block of `size` bytes would be; 0 when there can be none. */
size_t hk_good_size(size_t size);
size_t hk_slab_good_size(size_t size); /* of one of more than 32 KiB */

/* For the counting build. */
HK_INLINE void hk_count_request(size_t size) {
  if (!HK_COUNT) return;
  hk_count(hk_count_malloc, 1);
  hk_count(hk_count_bytes_asked, size);
  hk_count(hk_count_bytes_given, hk_good_size(size));
}

HK_INLINE void *hk_alloc(size_t size) {
  hk_count_request(size);
  hk_heap_t *heap = hk_thread_own();
  hk_block_t *block = NULL;
  if (HK_LIKELY(size <= HK_TINY_MAX_BYTES)) {
    block = hk_bin_pop(heap, hk_heap_tiny_bin(size));
  } else if (HK_LIKELY(size <= HK_MID_MAX_BYTES)) {
    block = hk_bin_pop_mid(heap, hk_heap_mid_bin(size));
  }
  return HK_LIKELY(block != NULL) ? block : hk_alloc_slow(size);
}

/* Whether an address in a slab of small blocks can be one that is in use. */
HK_INLINE bool hk_is_plausible(const hk_slab_t *slab, const void *block) {
  return hk_start_is_plausible((uint16_t)(uintptr_t)block, slab->inverse) && !hk_block_looks_free(block);
}

HK_INLINE void hk_free(void *block) {
  hk_count(hk_count_free, 1);
  hk_slab_t *slab = hk_slab_of(block);
  if (HK_UNLIKELY(!hk_thread_has(hk_load_relaxed(&slab->owner)))) {
    hk_free_slow(block, slab);
    return;
  }
  if (HK_UNLIKELY(!hk_is_plausible(slab, block))) {
    hk_free_slow(block, slab);
    return;
  }
  if (HK_UNLIKELY(hk_free_list_push(slab->free_list, block))) hk_free_due(slab);
}

/* 0 for NULL, and for what is no live block, after the misuse was reported; what free does not notice is not noticed
 * here either. Whose block it is makes no difference, for nothing is changed. Quick, because some programs ask with
 * each malloc and each free. */
HK_INLINE size_t hk_usable_size(const void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  bool is_small = hk_load_relaxed(&slab->owner) != NULL && (uintptr_t)block >> HK_ADDRESS_BITS == 0;
  return HK_LIKELY(is_small && hk_is_plausible(slab, block)) ? slab->block_bytes : hk_usable_size_slow(block);
}

#endif /* HK_API_ALLOC_H */
