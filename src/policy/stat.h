/* policy/stat.h - L2. Counters, declared in stat.def. Low layers count, report/report.c prints. */
#ifndef HK_POLICY_STAT_H
#define HK_POLICY_STAT_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/count.h"

HK_C_BEGIN

typedef enum {
#define HK_STAT(name, unit, help) hk_stat_##name,
#include "policy/stat.def"
  hk_stat_count
} hk_stat_id_t;

/* A set of counters. A heap's set has one writer at a time, the thread that has the heap: hk_stat_bump. The process's
 * set has many writers: hk_stat_add. Any thread reads at any time. Sums over sets are exact while no thread writes. */
typedef struct {
  _Atomic(uint64_t) value[hk_stat_count];
} hk_stat_set_t;

/* Counts events that happen without a heap. */
extern HK_HIDDEN hk_stat_set_t hk_stat_process;

HK_INLINE void hk_stat_bump(hk_stat_set_t *set, hk_stat_id_t id, uint64_t amount) {
  hk_bump_relaxed(&set->value[id], amount);
}
HK_INLINE void hk_stat_add(hk_stat_id_t id, uint64_t amount) {
  hk_count(hk_count_shared_update, 1);
  (void)hk_add_relaxed(&hk_stat_process.value[id], amount);
}

/* Adds every counter of `from` to the plain numbers `into[hk_stat_count]`. */
void hk_stat_sum(uint64_t *into, const hk_stat_set_t *from);

/* Sets every counter to zero. Requires that one thread exists. */
void hk_stat_clear(hk_stat_set_t *set);

/* A counter's name, unit ("count" or "bytes") and help text, as in stat.def. Arrays, because the dynamic linker has to
 * write each pointer in a table before the program starts. */
typedef struct {
  char name[24];
  char unit[8];
  char help[96];
} hk_stat_text_t;
extern const hk_stat_text_t hk_stat_text[hk_stat_count];

HK_C_END

#endif /* HK_POLICY_STAT_H */
