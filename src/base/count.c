/* base/count.c - L0. See count.h. */
#include "base/count.h"

#if HK_COUNT

_Atomic(uint64_t) hk_counter[hk_counter_count];

const hk_counter_text_t hk_counter_text[hk_counter_count] = {
#define HK_COUNTER(name, help) {#name, help},
#include "base/count.def"
};

#else

typedef int hk_count_is_off_t; /* a translation unit must hold something */

#endif
