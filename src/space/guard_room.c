/* space/guard_room.c - L3. See guard_room.h. Reading all mappings takes up to some 50 ms in a process that has many, so
 * it is done once for several blocks. */
#include "space/guard_room.h"

#include <stddef.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "os/os.h"
#include "os/sandbox.h"

#define MAPPINGS_EACH 2
#define SHARE 2 /* guards stop at this part of the mappings that the system allows */

/* Chosen: the blocks from one count to the next, and the time where there is no room. */
#define BLOCKS_EACH 512
#define PAUSE_MS 1000

static _Atomic(size_t) taken;
static _Atomic(size_t) allowed; /* below this, no count is needed */
static _Atomic(bool) is_counting;
static _Atomic(uint64_t) refused_ms; /* when a count last found no room; 0: never */

/* Counts the mappings of the process anew, and allows as many blocks as there is room for. Where a filter may end the
 * process for a file that it opens, takes the kernel's default limit and counts the guards alone. */
static void count(uint64_t now_ms) {
  bool may_look = !hk_sandbox_may_kill();
  size_t own = hk_load_relaxed(&taken), limit = may_look ? hk_os_mapping_limit() : HK_OS_MAPPING_LIMIT;
  size_t mappings = hk_larger(may_look ? hk_os_mapping_count() : 0, own * MAPPINGS_EACH);
  size_t room = hk_subtract_to_zero(limit / SHARE, mappings) / MAPPINGS_EACH;
  hk_store_relaxed(&refused_ms, room == 0 ? now_ms : 0);
  hk_store_relaxed(&allowed, own + hk_smaller(room, BLOCKS_EACH));
}

static bool has_room(uint64_t now_ms) {
  if (hk_load_relaxed(&taken) < hk_load_relaxed(&allowed)) return true;
  uint64_t refused = hk_load_relaxed(&refused_ms);
  bool expected = false;
  if (refused != 0 && now_ms - refused < PAUSE_MS) return false;
  /* While another thread counts, blocks take from the room of the next count in advance, so that none is passed
   * over. */
  if (!hk_compare_exchange_acquire(&is_counting, &expected, true))
    return refused == 0 && hk_load_relaxed(&taken) < hk_load_relaxed(&allowed) + BLOCKS_EACH;
  count(now_ms);
  hk_store_release(&is_counting, false);
  return hk_load_relaxed(&taken) < hk_load_relaxed(&allowed);
}

bool hk_guard_room_take(uint64_t now_ms) {
  if (!has_room(now_ms)) return false;
  (void)hk_add_relaxed(&taken, 1); /* several threads may exceed the room by one block each */
  return true;
}

void hk_guard_room_give(void) { (void)hk_sub_relaxed(&taken, 1); }
