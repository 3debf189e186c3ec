/* api/sampled.c - L6. See sampled.h. */
#include "api/sampled.h"

#include "api/lifecycle.h"
#include "heap/sample_countdown.h"
#include "policy/sampling.h"
#include "profile/profile.h"

typedef bool (*decide_t)(hk_heap_t *heap, size_t before, size_t after);

/* Asks the thread's heap, if it is sampled. */
static bool decide(decide_t ask, size_t before, size_t after, uint64_t *rate) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return false;
  hk_sample_countdown_follow(lease.heap);
  bool answer = false;
  if (hk_heap_is_sampled(lease.heap) && !hk_profile_is_inside()) {
    *rate = hk_sample_countdown_rate(lease.heap);
    answer = ask(lease.heap, before, after);
  }
  hk_thread_leave(lease);
  return answer;
}

static bool is_hit(hk_heap_t *heap, size_t before, size_t after) {
  return hk_sample_countdown_large_is_due(heap, after - before);
}

/* For one that is a sample. */
static bool stays_hit(hk_heap_t *heap, size_t before, size_t after) {
  if (after >= before) return true;
  uint64_t rate = hk_sample_countdown_rate(heap);
  double part = hk_sampling_chance(after, rate) / hk_sampling_chance(before, rate);
  return (double)hk_sampling_random(&heap->countdowns->random) * 0x1p-64 < part;
}

bool hk_sampled_large_is_due(size_t bytes, uint64_t *rate) { return decide(is_hit, 0, bytes, rate); }

uint64_t hk_sampled_weight_after(uintptr_t address, bool is_known, size_t old_bytes, size_t new_bytes) {
  hk_sample_t sample = {.weight = {.block_bytes = old_bytes}};
  if (is_known) (void)hk_sample_find(address, &sample);
  bool is_sample = sample.weight.weight_q16 != 0;
  if (!hk_sampling_is_on()) return sample.weight.weight_q16;
  size_t before = sample.weight.block_bytes;
  if (!is_sample && new_bytes <= before) return 0;
  uint64_t rate;
  if (!decide(is_sample ? stays_hit : is_hit, before, new_bytes, &rate)) return 0;
  return hk_sampling_weight(new_bytes, rate);
}
