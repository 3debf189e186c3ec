/* inspect/pinned.c - L8. See pinned.h. */
#include "inspect/pinned.h"

#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "inspect/census.h"
#include "inspect/sample.h"
#include "os/os.h"
#include "policy/size_class.h"
#include "unwind/site.h"

static void add(const hk_sample_t *sample, void *context) {
  const hk_census_t *census = context;
  uint64_t bytes = sample->weight.block_bytes;
  if (sample->weight.weight_q16 == 0 || bytes == 0 || bytes > HK_MID_MAX_BYTES)
    return; /* a larger block shares its memory with no other block */
  const hk_census_count_t *class = &census->of_class[hk_class_of(bytes)];
  if (class->live_blocks == 0) return;
  unsigned __int128 weighted = (unsigned __int128)class->free_bytes * sample->weight.weight_q16;
  sample->site->pinned_bytes += (uint64_t)(weighted / class->live_blocks >> 16);
}

bool hk_pinned_estimate(void) {
  size_t bytes = hk_align_up(sizeof(hk_census_t), hk_os_page_size());
  hk_census_t *census = hk_os_reserve(bytes, hk_os_page_size());
  if (census == NULL) return false;
  hk_census_take(census, NULL);
  for (hk_site_t *site = hk_site_next(NULL); site != NULL; site = hk_site_next(site)) site->pinned_bytes = 0;
  hk_sample_visit(add, census);
  (void)hk_os_unmap(census, bytes);
  return true;
}
