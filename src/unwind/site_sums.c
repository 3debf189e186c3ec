/* unwind/site_sums.c - L6. See site_sums.h. The first thread that has something to write in a site's `past` or `lives`
 * makes that part. The site that stacks without room share has all parts from the start. */
#include "unwind/site_sums.h"

#include <stddef.h>

#include "base/arithmetic.h"
#include "base/bits.h"

static hk_site_lives_t shared_lives[HK_SITE_LIVES_PARTS];
static hk_site_past_t shared_past;

static void add_sample(hk_site_sums_t *sums, const hk_sample_weight_t *weight) {
  (void)hk_add_relaxed(&sums->samples, 1);
  (void)hk_add_relaxed(&sums->objects_q16, weight->weight_q16);
  (void)hk_add_relaxed(&sums->requested_bytes, hk_site_sums_weighted(weight->requested_bytes, weight->weight_q16));
  (void)hk_add_relaxed(&sums->block_bytes, hk_site_sums_weighted(weight->block_bytes, weight->weight_q16));
}

void hk_site_sums_count_alloc(hk_site_t *site, const hk_sample_weight_t *weight) {
  add_sample(&site->allocated, weight);
}

static hk_site_lives_t *get_lives(hk_site_t *site, unsigned part) {
  if (hk_site_is_shared(site)) return &shared_lives[part];
  return hk_site_get_part(&site->lives[part], sizeof(hk_site_lives_t));
}

static hk_site_past_t *get_past(hk_site_t *site) {
  return hk_site_is_shared(site) ? &shared_past : hk_site_get_part(&site->past, sizeof(hk_site_past_t));
}

/* Returns NULL when the site does not have the part. */
static const hk_site_lives_t *find_lives(const hk_site_t *site, unsigned part) {
  if (hk_site_is_shared(site)) return &shared_lives[part];
  return hk_site_find_part(&site->lives[part]);
}

static const hk_site_past_t *find_past(const hk_site_t *site) {
  if (hk_site_is_shared(site)) return &shared_past;
  return hk_site_find_part(&site->past);
}

void hk_site_sums_count_free(hk_site_t *site, const hk_sample_weight_t *weight, uint64_t lived_ms) {
  unsigned bucket = lived_ms == 0 ? 0 : hk_highest_bit(lived_ms) + 1;
  if (bucket >= HK_SITE_LIFETIMES) bucket = HK_SITE_LIFETIMES - 1;
  hk_site_lives_t *lives = get_lives(site, bucket / HK_SITE_LIVES_EACH);
  if (lives != NULL) (void)hk_add_relaxed(&lives->blocks_q16[bucket % HK_SITE_LIVES_EACH], weight->weight_q16);
  add_sample(&site->freed, weight);
}

static uint64_t since(const _Atomic(uint64_t) *now, const _Atomic(uint64_t) *before) {
  return hk_subtract_to_zero(hk_load_relaxed(now), hk_load_relaxed(before));
}

void hk_site_sums_read(const hk_site_t *site, hk_site_figures_t *allocated, hk_site_figures_t *in_use) {
  static const hk_site_sums_t nothing;
  const hk_site_past_t *past = find_past(site);
  const hk_site_sums_t *frees = &site->freed, *allocations = &site->allocated;
  const hk_site_sums_t *before = past != NULL ? &past->allocated : &nothing;
  hk_site_figures_t freed = {hk_load_relaxed(&frees->objects_q16), hk_load_relaxed(&frees->requested_bytes),
                             hk_load_relaxed(&frees->block_bytes), hk_load_relaxed(&frees->samples)};
  in_use->objects =
      hk_site_sums_rounded(hk_subtract_to_zero(hk_load_relaxed(&allocations->objects_q16), freed.objects));
  in_use->requested_bytes = hk_subtract_to_zero(hk_load_relaxed(&allocations->requested_bytes), freed.requested_bytes);
  in_use->block_bytes = hk_subtract_to_zero(hk_load_relaxed(&allocations->block_bytes), freed.block_bytes);
  in_use->samples = hk_subtract_to_zero(hk_load_relaxed(&allocations->samples), freed.samples);
  *allocated = (hk_site_figures_t){hk_site_sums_rounded(since(&allocations->objects_q16, &before->objects_q16)),
                                   since(&allocations->requested_bytes, &before->requested_bytes),
                                   since(&allocations->block_bytes, &before->block_bytes),
                                   since(&allocations->samples, &before->samples)};
}

uint64_t hk_site_sums_lifetime(const hk_site_t *site, unsigned bucket) {
  static const _Atomic(uint64_t) none;
  unsigned part = bucket / HK_SITE_LIVES_EACH, which = bucket % HK_SITE_LIVES_EACH;
  const hk_site_lives_t *lives = find_lives(site, part);
  const hk_site_past_t *past = find_past(site);
  if (lives == NULL) return 0;
  return hk_site_sums_rounded(
      since(&lives->blocks_q16[which], past != NULL ? &past->lives[part].blocks_q16[which] : &none));
}

static void copy_sum(_Atomic(uint64_t) *before, const _Atomic(uint64_t) *now) {
  hk_store_relaxed(before, hk_load_relaxed(now));
}

/* Copies the site's sums into its past. Two threads may do so at once, when the profile is stopped and started again
 * meanwhile. */
static void begin_profile(hk_site_t *site) {
  hk_site_past_t *past = get_past(site);
  if (past == NULL) return;
  copy_sum(&past->allocated.samples, &site->allocated.samples);
  copy_sum(&past->allocated.objects_q16, &site->allocated.objects_q16);
  copy_sum(&past->allocated.requested_bytes, &site->allocated.requested_bytes);
  copy_sum(&past->allocated.block_bytes, &site->allocated.block_bytes);
  for (unsigned part = 0; part < HK_SITE_LIVES_PARTS; part++) {
    const hk_site_lives_t *lives = find_lives(site, part);
    if (lives == NULL) continue;
    for (unsigned i = 0; i < HK_SITE_LIVES_EACH; i++) copy_sum(&past->lives[part].blocks_q16[i], &lives->blocks_q16[i]);
  }
}

void hk_site_sums_begin_all(void) {
  for (hk_site_t *site = hk_site_next(NULL); site != NULL; site = hk_site_next(site)) begin_profile(site);
}
