/* base/count.h - L0. The counting build's counters. In every other build hk_count is nothing. */
#ifndef HK_BASE_COUNT_H
#define HK_BASE_COUNT_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

#ifndef HK_COUNT
#define HK_COUNT 0
#endif

typedef enum {
#define HK_COUNTER(name, help) hk_count_##name,
#include "base/count.def"
  hk_counter_count
} hk_counter_t;

#if HK_COUNT

/* Any thread adds: that makes the counting build slow, and its counts exact. */
extern HK_HIDDEN _Atomic(uint64_t) hk_counter[hk_counter_count];

/* The counters' names and help texts, as in count.def. */
typedef struct {
  const char *name;
  const char *help;
} hk_counter_text_t;
extern HK_HIDDEN const hk_counter_text_t hk_counter_text[hk_counter_count];

HK_INLINE void hk_count(hk_counter_t counter, uint64_t amount) { (void)hk_add_relaxed(&hk_counter[counter], amount); }

#else

HK_INLINE void hk_count(hk_counter_t counter, uint64_t amount) {
  (void)counter;
  (void)amount;
}

#endif

#endif /* HK_BASE_COUNT_H */
