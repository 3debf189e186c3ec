/* inspect/estimate.c - L8. See estimate.h. */
#include "inspect/estimate.h"

#include "api/alloc.h"
#include "base/arithmetic.h"
#include "heap/heap.h"
#include "inspect/sample.h"
#include "space/region_map.h"
#include "unwind/site_sums.h"

static unsigned band_of(uint64_t bytes) {
  return bytes <= HK_TINY_MAX_BYTES  ? HAKMEM_BAND_TINY
         : bytes <= HK_MID_MAX_BYTES ? HAKMEM_BAND_MID
         : bytes <= HK_RUN_MAX_BYTES ? HAKMEM_BAND_RUN
                                     : HAKMEM_BAND_LARGE;
}

static void add_others(hk_estimate_t *estimate, const hk_sample_weight_t *weight) {
  estimate->requested_bytes += hk_site_sums_weighted(weight->requested_bytes, weight->weight_q16);
  estimate->block_bytes += hk_site_sums_weighted(weight->block_bytes, weight->weight_q16);
}

static void add_itself(hk_estimate_t *estimate, uint64_t requested_bytes, uint64_t block_bytes) {
  estimate->own_requested_bytes += requested_bytes;
  estimate->own_block_bytes += block_bytes;
}

/* Returns the estimate of the heap that owns the sample's block. Another thread may free the sample meanwhile: its slab
 * may then have another owner or none, and the sample counts for that owner or not at all. */
static hk_estimate_t *estimate_of_heap(hk_estimates_t *estimates, uintptr_t address) {
  hk_heap_t *owner = hk_slab_owner(hk_slab_of((const void *)address));
  size_t number = owner != NULL ? hk_load_relaxed(&owner->number) : 0;
  return number > 0 && number <= estimates->heap_count ? &estimates->of_heap[number - 1] : NULL;
}

static void add_sample(const hk_sample_t *sample, void *context) {
  hk_estimates_t *estimates = context;
  const hk_sample_weight_t *weight = &sample->weight;
  uint64_t requested = weight->requested_bytes, usual = weight->block_bytes;
  uint64_t own = hk_good_size(sample->offset + usual);
  if (usual <= HK_MID_MAX_BYTES) add_others(&estimates->of_class[hk_class_of(usual)], weight);
  if (own <= HK_MID_MAX_BYTES) add_itself(&estimates->of_class[hk_class_of(own)], requested, own);
  add_others(&estimates->of_band[band_of(usual)], weight);
  add_itself(&estimates->of_band[band_of(own)], requested, own);
  hk_estimate_t *of_heap = estimate_of_heap(estimates, sample->address);
  if (of_heap == NULL) return; /* larger blocks have no owner, so this returns for all of them */
  add_others(of_heap, weight);
  add_itself(of_heap, requested, own);
}

void hk_estimates_take(hk_estimates_t *estimates) { hk_sample_visit(add_sample, estimates); }

uint64_t hk_estimate_requested(const hk_estimate_t *estimate, uint64_t live_bytes) {
  uint64_t others = hk_subtract_to_zero(live_bytes, estimate->own_block_bytes);
  if (others == 0) return hk_smaller(live_bytes, estimate->own_requested_bytes);
  if (estimate->block_bytes == 0) return 0;
  unsigned __int128 scaled = (unsigned __int128)others * hk_smaller(estimate->requested_bytes, estimate->block_bytes);
  return hk_smaller(live_bytes, (uint64_t)(scaled / estimate->block_bytes) + estimate->own_requested_bytes);
}
