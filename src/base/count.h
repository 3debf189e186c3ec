/* base/count.h - L0. The counting build's counters. In every other build hk_count is nothing. */
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

typedef enum {
#define HK_COUNTER(name, help) hk_count_##name,
#include "base/count.def"
  hk_counter_count
} hk_counter_t;

#if HK_COUNT

/* The counters' names and help texts, as in count.def. */
typedef struct {
  const char *name;
  const char *help;
} hk_counter_text_t;
extern HK_HIDDEN const hk_counter_text_t hk_counter_text[hk_counter_count];

/* Some threads' share of every counter. Any of them adds: counts are exact, and threads seldom wait for each other's
 * cache lines, which would change what the other counters see. */
typedef struct {
  _Atomic(uint64_t) value[hk_counter_count];
} hk_count_share_t;
extern HK_HIDDEN HK_THREAD_LOCAL hk_count_share_t *hk_count_own_share;
hk_count_share_t *hk_count_take_share(void);

/* Looks at the sums whose peaks are kept, which layers above know. Set once, before a second thread exists. */
extern HK_HIDDEN void (*hk_count_look)(void);

/* Those sums change under locks and by shared updates: who looks before each of these misses no value of a thread's. */
HK_INLINE void hk_count_seam(void) {
  if (hk_count_look != NULL) hk_count_look();
}

HK_INLINE void hk_count(hk_counter_t counter, uint64_t amount) {
  hk_count_share_t *share = hk_count_own_share;
  if (HK_UNLIKELY(share == NULL)) share = hk_count_take_share();
  (void)hk_add_relaxed(&share->value[counter], amount);
  if (counter == hk_count_shared_update) hk_count_seam();
}

/* Keeps the highest value. */
void hk_count_peak(hk_counter_t counter, uint64_t value);

/* Every counter, exact once the other threads are quiet. */
void hk_count_sum(uint64_t *into);

/* Sets them all to zero. While one thread exists. */
void hk_count_clear(void);

#else

HK_INLINE void hk_count(hk_counter_t counter, uint64_t amount) {
  (void)counter;
  (void)amount;
}
HK_INLINE void hk_count_seam(void) {}
HK_INLINE void hk_count_clear(void) {}

#endif

#endif /* HK_BASE_COUNT_H */
