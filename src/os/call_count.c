/* os/call_count.c - L1. See call_count.h. */
#include "os/call_count.h"

_Atomic(uint64_t) hk_call_counts[hk_call_kind_count];

uint64_t hk_call_count(hk_call_kind_t kind) { return hk_load_relaxed(&hk_call_counts[kind]); }

void hk_call_count_clear(void) {
  for (unsigned i = 0; i < hk_call_kind_count; i++) hk_store_relaxed(&hk_call_counts[i], 0);
}
