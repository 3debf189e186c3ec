/* profile/site.h - L5. What is known of each place that allocates: counts of what was sampled there. */
#ifndef HK_PROFILE_SITE_H
#define HK_PROFILE_SITE_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

typedef struct hk_site hk_site_t;

/* A sampled block: what was asked for, what it was given, and how many blocks it stands for, with 16 bits after the
 * point. */
typedef struct {
  uint64_t requested_bytes;
  uint64_t block_bytes;
  uint64_t weight_q16;
} hk_sample_weight_t;

/* The place with this stack; NULL when there is no room for one more. Any thread. */
hk_site_t *hk_site_of(const uintptr_t *frames, unsigned count);

/* `site` may be NULL. */
void hk_site_count_alloc(hk_site_t *site, const hk_sample_weight_t *weight);
void hk_site_count_free(hk_site_t *site, const hk_sample_weight_t *weight, uint64_t lived_ms);

/* All places, from the one after `previous`, or the first after NULL; NULL when there are no more. */
hk_site_t *hk_site_next(const hk_site_t *previous);

HK_C_END

#endif /* HK_PROFILE_SITE_H */
