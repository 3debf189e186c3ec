/* policy/fill.c - L2. See fill.h. */
#include "policy/fill.h"

#include "base/arithmetic.h"
#include "base/bits.h"

static unsigned index_of(size_t bytes) { return hk_highest_bit(bytes - 1) - hk_highest_bit(HK_FILL_LEAST_BYTES - 1); }

/* How many of a size may be made resident before one has to tell. */
static unsigned ahead(const hk_fill_t *fill, unsigned i) {
  size_t largest_bytes = (HK_FILL_LEAST_BYTES - 1) << (i + 1);
  return (unsigned)hk_smaller(fill->size[i].filled, HK_FILL_AHEAD_BYTES / largest_bytes);
}

hk_fill_wish_t hk_fill_wish(hk_fill_t *fill, size_t bytes, size_t limit_bytes) {
  if (bytes < HK_FILL_LEAST_BYTES || bytes > HK_FILL_MOST_BYTES) return hk_fill_leave;
  if (limit_bytes > 0 && bytes > limit_bytes / HK_FILL_LIMIT_SHARE) return hk_fill_leave;
  unsigned i = index_of(bytes);
  if (fill->size[i].filled < HK_FILL_ENOUGH || fill->size[i].prefaulted == ahead(fill, i)) return hk_fill_sample;
  fill->size[i].prefaulted++;
  return hk_fill_prefault;
}

void hk_fill_note(hk_fill_t *fill, size_t bytes, bool was_filled) {
  unsigned i = index_of(bytes);
  fill->size[i].prefaulted = 0;
  if (!was_filled) {
    fill->size[i].filled = 0;
  } else if (fill->size[i].filled < HK_FILL_MOST) {
    fill->size[i].filled++;
  }
}
