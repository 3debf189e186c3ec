/* base/count.c - L0. See count.h. */
#include "base/count.h"

#if HK_COUNT

/* Chosen: above the number of threads that run at once. */
#define SHARE_COUNT 64

/* Each share has cache lines of its own. */
static struct { _Alignas(HK_CACHE_LINE_BYTES) hk_count_share_t share; } shares[SHARE_COUNT];

static _Atomic(uint64_t) peak[hk_counter_count];
static _Atomic(unsigned) next_share;

HK_THREAD_LOCAL hk_count_share_t *hk_count_own_share;
void (*hk_count_hook)(void);

const hk_counter_text_t hk_counter_text[hk_counter_count] = {
#define HK_COUNTER(name, help) {#name, help},
#include "base/count.def"
};

hk_count_share_t *hk_count_take_share(void) {
  hk_count_own_share = &shares[hk_add_relaxed(&next_share, 1) % SHARE_COUNT].share;
  return hk_count_own_share;
}

void hk_count_peak(hk_counter_t counter, uint64_t value) {
  uint64_t highest = hk_load_relaxed(&peak[counter]);
  while (value > highest && !hk_compare_exchange_weak_release(&peak[counter], &highest, value)) continue;
}

void hk_count_sum(uint64_t *into) {
  for (unsigned i = 0; i < hk_counter_count; i++) {
    into[i] = hk_load_relaxed(&peak[i]); /* 0 for a counter that is not a peak */
    for (unsigned j = 0; j < SHARE_COUNT; j++) into[i] += hk_load_relaxed(&shares[j].share.value[i]);
  }
}

void hk_count_clear(void) {
  for (unsigned i = 0; i < hk_counter_count; i++) {
    hk_store_relaxed(&peak[i], 0);
    for (unsigned j = 0; j < SHARE_COUNT; j++) hk_store_relaxed(&shares[j].share.value[i], 0);
  }
}

#else

typedef int hk_count_is_off_t; /* ISO C requires a declaration in a translation unit */

#endif
