/* space/shortage.c - L3. See shortage.h. */
#include "space/shortage.h"

#include "os/os.h"

_Atomic(uint64_t) hk_shortage_until_ms;

void hk_shortage_begin(void) { hk_store_relaxed(&hk_shortage_until_ms, hk_os_coarse_ms() + HK_SHORTAGE_MS); }

bool hk_shortage_is_on_slow(void) {
  if (hk_os_coarse_ms() < hk_load_relaxed(&hk_shortage_until_ms)) return true;
  hk_store_relaxed(&hk_shortage_until_ms, 0);
  return false;
}
