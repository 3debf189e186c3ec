/* policy/prefault_policy.c - L2. See prefault_policy.h. */
#include "policy/prefault_policy.h"

#include "base/arithmetic.h"
#include "base/bits.h"

static unsigned index_of(size_t bytes) { return hk_highest_bit(bytes - 1) - hk_highest_bit(HK_PREFAULT_MIN_BYTES - 1); }

/* Returns how many blocks of a size are prefaulted before the next sample. */
static unsigned ahead(const hk_prefault_policy_t *policy, unsigned i) {
  size_t largest_bytes = (HK_PREFAULT_MIN_BYTES - 1) << (i + 1);
  return (unsigned)hk_smaller(policy->size[i].filled, HK_PREFAULT_AHEAD_BYTES / largest_bytes);
}

hk_prefault_advice_t hk_prefault_policy_advise(hk_prefault_policy_t *policy, size_t bytes, size_t limit_bytes) {
  if (bytes < HK_PREFAULT_MIN_BYTES || bytes > HK_PREFAULT_MAX_BYTES) return hk_prefault_leave;
  if (limit_bytes > 0 && bytes > limit_bytes / HK_PREFAULT_LIMIT_SHARE) return hk_prefault_leave;
  unsigned i = index_of(bytes);
  if (policy->size[i].filled < HK_PREFAULT_ENOUGH || policy->size[i].prefaulted == ahead(policy, i))
    return hk_prefault_sample;
  policy->size[i].prefaulted++;
  return hk_prefault_whole;
}

void hk_prefault_policy_note(hk_prefault_policy_t *policy, size_t bytes, bool was_filled) {
  unsigned i = index_of(bytes);
  policy->size[i].prefaulted = 0;
  if (!was_filled) {
    policy->size[i].filled = 0;
  } else if (policy->size[i].filled < HK_PREFAULT_MAX) {
    policy->size[i].filled++;
  }
}

unsigned hk_prefault_policy_filled(const hk_prefault_policy_t *policy, size_t bytes) {
  return policy->size[index_of(bytes)].filled;
}
