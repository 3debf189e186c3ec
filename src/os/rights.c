/* os/rights.c - L1. See rights.h. */
#include "os/rights.h"

#include "base/arithmetic.h"
#include "os/thread_call.h"

hk_rights_watch_t hk_rights_watch_begin(bool is_of_first_thread, bool is_of_c_library, uint64_t now_ms) {
  return (hk_rights_watch_t){
      .due_ms = is_of_first_thread ? now_ms + HK_RIGHTS_LOOK_MS : now_ms,
      .was_same = is_of_first_thread,
      .is_of_c_library = is_of_c_library,
      .is_new = is_of_first_thread,
  };
}

void hk_rights_watch_soon(hk_rights_watch_t *watch, uint64_t now_ms) {
  if (!watch->is_new) watch->due_ms = hk_smaller(watch->due_ms, now_ms);
}

bool hk_rights_is_first_thread(void) { return hk_thread_call_own() == hk_os_process_id(); }

hk_rights_t hk_rights_watch(hk_rights_watch_t *watch, uint64_t now_ms) {
  if (now_ms < watch->due_ms) return hk_rights_same;
  hk_rights_t found = hk_os_rights(watch->was_same);
  watch->is_new = false;
  if (found == hk_rights_differ && watch->is_of_c_library && watch->was_same && !watch->differed) {
    watch->differed = true;
    watch->due_ms = now_ms + HK_RIGHTS_AGAIN_MS;
    return hk_rights_same;
  }
  if (!hk_rights_may_stay(found)) return found;
  watch->due_ms = found == hk_rights_settled ? UINT64_MAX : now_ms + HK_RIGHTS_LOOK_MS;
  watch->was_same = true;
  watch->differed = false;
  return found;
}
