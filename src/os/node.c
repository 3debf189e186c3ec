/* os/node.c - L1. See node.h. */
#include "os/node.h"

#include "os/os.h"

_Atomic(unsigned) hk_node_count;

static HK_COLD unsigned find_count(void) {
  unsigned count = hk_os_node_count();
  if (count > HK_NODE_MAX) count = HK_NODE_MAX;
  hk_store_relaxed(&hk_node_count, count);
  return count;
}

unsigned hk_node_current_slow(void) {
  unsigned count = hk_load_relaxed(&hk_node_count);
  if (HK_UNLIKELY(count == 0)) count = find_count();
  return count == 1 ? 0 : hk_os_current_place().node % count;
}
