/* profile/site.c - L5. See site.h. */
#include "profile/site.h"

#include <stddef.h>

hk_site_t *hk_site_of(const uintptr_t *frames, unsigned count) {
  (void)frames;
  (void)count;
  return NULL;
}

void hk_site_count_alloc(hk_site_t *site, const hk_sample_weight_t *weight) {
  (void)site;
  (void)weight;
}

void hk_site_count_free(hk_site_t *site, const hk_sample_weight_t *weight, uint64_t lived_ms) {
  (void)site;
  (void)weight;
  (void)lived_ms;
}

hk_site_t *hk_site_next(const hk_site_t *previous) {
  (void)previous;
  return NULL;
}
