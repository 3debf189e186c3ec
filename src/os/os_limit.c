/* os/os_limit.c - L1. Keeps the part of os.h's contract that is about limits on memory, on Linux. */
#include "base/atomic.h"
#include "os/memory_limit.h"
#include "os/os.h"

/* Written once, by the thread that looks first; `stage` publishes it. */
static hk_memory_limit_place_t place;

typedef enum { not_found_yet, being_found, found_place } stage_t;
static _Atomic(int) stage = not_found_yet;

/* False while another thread is at it. In a child of fork that began in that moment it stays so: such a child goes
 * without. */
static bool has_place(void) {
  int expected = not_found_yet;
  if (hk_load_acquire(&stage) == found_place) return true;
  if (!hk_publish_once(&stage, &expected, (int)being_found)) return expected == found_place;
  (void)hk_memory_limit_find(&place, ""); /* in want of a limit there are no levels in it */
  hk_store_release(&stage, found_place);
  return true;
}

bool hk_os_memory_limit(hk_os_memory_limit_t *limit) {
  if (!has_place() || !hk_memory_limit_read(&place, limit)) return false;
  limit->stalled_permille = hk_memory_limit_stalled(&place, "/proc/pressure/memory");
  return true;
}
