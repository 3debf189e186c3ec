/* space/shortage.h - L3. Shortages of addresses. One begins when the system refuses a superslab and grants a part of
 * one, as it does near RLIMIT_AS and RLIMIT_DATA.
 *
 * During a shortage nothing is mapped ahead, and each mapping is as small as the request allows: the slabs of one
 * request, or whole pages for a larger block. If the system refuses a part too, no shortage begins: mappings may be
 * short instead (vm.max_map_count), and many small ones would make that worse.
 */
#ifndef HK_SPACE_SHORTAGE_H
#define HK_SPACE_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"

/* Chosen: duration of a shortage. A program that stays near its limit begins the next one at once. */
#define HK_SHORTAGE_MS ((uint64_t)1000)

/* Chosen: the most mappings that blocks of whole pages are, and the most that the slabs of short spans are: a quarter
 * each of those that the kernel allows a process by default. */
#define HK_SHORTAGE_MAPPINGS_MAX (HK_OS_MAPPING_LIMIT / 4)

/* When the shortage ends, on the clock of hk_os_coarse_ms; 0: there is none. Any thread writes it. */
extern HK_HIDDEN _Atomic(uint64_t) hk_shortage_until_ms;

/* Begins a shortage, or lengthens it: it lasts HK_SHORTAGE_MS from now on. Any thread. */
void hk_shortage_begin(void);

/* Returns whether there is a shortage. Any thread. The slow half ends one whose time is over. */
bool hk_shortage_is_on_slow(void);
HK_INLINE bool hk_shortage_is_on(void) {
  return HK_UNLIKELY(hk_load_relaxed(&hk_shortage_until_ms) != 0) && hk_shortage_is_on_slow();
}

#endif /* HK_SPACE_SHORTAGE_H */
