/* base/count.h - L0. The counters of the counting build. In every other build hk_count does nothing. */
#ifndef HK_BASE_COUNT_H
#define HK_BASE_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

#ifndef HK_COUNT
#define HK_COUNT 0
#endif

HK_C_BEGIN

typedef enum {
#define HK_COUNTER(name, help) hk_count_##name,
#include "base/count.def"
  hk_counter_count
} hk_counter_t;

#if HK_COUNT

/* Names and help texts of the counters, as in count.def. */
typedef struct {
  const char *name;
  const char *help;
} hk_counter_text_t;
extern HK_HIDDEN const hk_counter_text_t hk_counter_text[hk_counter_count];

/* One share of every counter, which several threads add to. All additions are atomic, so sums are exact. Threads seldom
 * wait for each other's cache lines, which would change the other counters. */
typedef struct {
  _Atomic(uint64_t) value[hk_counter_count];
} hk_count_share_t;
extern HK_HIDDEN HK_THREAD_LOCAL hk_count_share_t *hk_count_own_share;
hk_count_share_t *hk_count_take_share(void);

/* Reads the sums that have peaks, which layers above compute. Set once, before a second thread exists. */
extern HK_HIDDEN void (*hk_count_hook)(void);

/* Calls the hook. Every lock and every shared update does so, where those sums change, so the hook misses no value of a
 * thread's. */
HK_INLINE void hk_count_run_hook(void) {
  if (hk_count_hook != NULL) hk_count_hook();
}

HK_INLINE void hk_count(hk_counter_t counter, uint64_t amount) {
  hk_count_share_t *share = hk_count_own_share;
  if (HK_UNLIKELY(share == NULL)) share = hk_count_take_share();
  (void)hk_add_relaxed(&share->value[counter], amount);
  if (counter == hk_count_shared_update) hk_count_run_hook();
}

/* Raises a peak to `value` if it is lower. */
void hk_count_peak(hk_counter_t counter, uint64_t value);

/* Sums every counter over the shares. Exact while no other thread counts. */
void hk_count_sum(uint64_t *into);

/* Sets all counters to zero. Requires that one thread exists. */
void hk_count_clear(void);

#else

HK_INLINE void hk_count(hk_counter_t counter, uint64_t amount) {
  (void)counter;
  (void)amount;
}
HK_INLINE void hk_count_run_hook(void) {}
HK_INLINE void hk_count_clear(void) {}

#endif

HK_C_END

#endif /* HK_BASE_COUNT_H */
