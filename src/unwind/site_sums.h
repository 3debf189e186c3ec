/* unwind/site_sums.h - L6. What a site counts: its sampled blocks, their frees, and how long they lived. Any thread may
 * call these functions, and no call waits. */
#ifndef HK_UNWIND_SITE_SUMS_H
#define HK_UNWIND_SITE_SUMS_H

#include <stdint.h>

#include "unwind/site.h"

HK_C_BEGIN

/* Returns the bytes that `bytes` of a block with this weight stand for, rounded. */
HK_INLINE uint64_t hk_site_sums_weighted(uint64_t bytes, uint64_t weight_q16) {
  return (uint64_t)(((unsigned __int128)bytes * weight_q16 + (1u << 15)) >> 16);
}
/* Rounds to whole blocks. */
HK_INLINE uint64_t hk_site_sums_rounded(uint64_t blocks_q16) { return (blocks_q16 + (1u << 15)) >> 16; }

/* Counts an allocated block. */
void hk_site_sums_count_alloc(hk_site_t *site, const hk_sample_weight_t *weight);
/* Counts the free of a block whose allocation was counted with the same weight. */
void hk_site_sums_count_free(hk_site_t *site, const hk_sample_weight_t *weight, uint64_t lived_ms);

/* Begins a profile: hk_site_sums_read's `allocated` and hk_site_sums_lifetime count from here on. `in_use` still counts
 * all. */
void hk_site_sums_begin_all(void);

/* A site's figures, at about one moment. */
typedef struct {
  uint64_t objects;
  uint64_t requested_bytes;
  uint64_t block_bytes;
  uint64_t samples;
} hk_site_figures_t;
/* Reads the figures of allocations since the profile was last started, and of all blocks in use, which are never
 * negative. */
void hk_site_sums_read(const hk_site_t *site, hk_site_figures_t *allocated, hk_site_figures_t *in_use);
/* Returns how many blocks of the bucket's lifetimes were freed since the profile was last started. */
uint64_t hk_site_sums_lifetime(const hk_site_t *site, unsigned bucket);

HK_C_END

#endif /* HK_UNWIND_SITE_SUMS_H */
