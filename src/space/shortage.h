/* space/shortage.h - L3. Whether addresses are short: the system has refused a superslab of late, and granted a part of
 * one, as it does near RLIMIT_AS and RLIMIT_DATA. Then nothing is mapped ahead, and as little beside what is asked for
 * as can be: slabs are mapped singly, and larger blocks in whole pages. Where the system refuses both, mappings may be
 * short instead (vm.max_map_count), and many small ones would make that worse.
 */
#ifndef HK_SPACE_SHORTAGE_H
#define HK_SPACE_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* Chosen: how long a shortage lasts. A program that stays near its limit begins the next one at once. */
#define HK_SHORTAGE_MS ((uint64_t)1000)

/* When it ends; 0: there is none. Any thread writes it. */
extern HK_HIDDEN _Atomic(uint64_t) hk_shortage_until_ms;

void hk_shortage_begin(void);

bool hk_shortage_is_on_slow(void);
HK_INLINE bool hk_shortage_is_on(void) {
  return HK_UNLIKELY(hk_load_relaxed(&hk_shortage_until_ms) != 0) && hk_shortage_is_on_slow();
}

#endif /* HK_SPACE_SHORTAGE_H */
