/* os/shard.c - L1. See shard.h. Shards are numbered node by node. */
#include "os/shard.h"

#include <assert.h>

#include "base/arithmetic.h"
#include "os/node.h"
#include "os/os.h"

static_assert(HK_NODE_MAX <= HK_SHARD_MAX, "each node has a shard");

_Atomic(unsigned) hk_shard_count, hk_shard_used, hk_shard_at_once;

/* Of each node: its shards, and how many of them its processors use, the first ones. */
static _Atomic(unsigned) of_node, used_of_node;

static unsigned node_count(void) {
  if (hk_load_relaxed(&hk_node_count) == 0) (void)hk_node_current(); /* the first call counts them */
  return hk_load_relaxed(&hk_node_count);
}

HK_INLINE void set(unsigned nodes, unsigned each) {
  unsigned most = HK_SHARD_MAX / nodes;
  if (each > most) each = most;
  hk_store_relaxed(&used_of_node, each);
  if (nodes * each <= hk_load_relaxed(&hk_shard_count)) return;
  hk_store_relaxed(&of_node, each);
  hk_store_relaxed(&hk_shard_count, nodes * each);
}

static void use_all(void) { hk_store_relaxed(&hk_shard_used, node_count() * hk_load_relaxed(&used_of_node)); }

static HK_COLD void find_count(void) {
  unsigned nodes = node_count();
  set(nodes, (hk_os_cpu_count() + nodes - 1) / nodes);
  hk_store_relaxed(&hk_shard_at_once, 1);
  hk_store_relaxed(&hk_shard_used, nodes == 1 ? 1 : hk_load_relaxed(&hk_shard_count));
}

unsigned hk_shard_current_slow(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_shard_used) == 0)) find_count();
  if (hk_load_relaxed(&hk_shard_used) == 1) return 0;
  unsigned used = hk_load_relaxed(&used_of_node);
  hk_os_place_t place = hk_os_current_place();
  unsigned node = place.node % hk_load_relaxed(&hk_node_count);
  /* The processors of a node have numbers in a row, or the nodes take turns. Both use all shards evenly. */
  return node * hk_load_relaxed(&of_node) + (place.cpu + place.cpu / used) % used;
}

void hk_shard_note_threads(size_t count) {
  if (hk_load_relaxed(&hk_shard_used) == 0) find_count();
  use_all();
  hk_store_relaxed(&hk_shard_at_once, (unsigned)hk_smaller(count, hk_load_relaxed(&hk_shard_used)));
}

unsigned hk_shard_node(unsigned shard) { return shard == 0 ? 0 : shard / hk_load_relaxed(&of_node); }

unsigned hk_shard_next_of_node(unsigned shard) {
  unsigned each = hk_load_relaxed(&of_node);
  return (shard + 1) % each == 0 ? shard + 1 - each : shard + 1;
}

unsigned hk_shard_of_next_node(unsigned shard) {
  return (shard + hk_load_relaxed(&of_node)) % hk_load_relaxed(&hk_shard_count);
}

void hk_shard_set_each(unsigned count) {
  (void)hk_shard_current();
  hk_lock_acquire(hk_shard_lock(0));
  set(node_count(), count);
  hk_lock_release(hk_shard_lock(0));
  use_all();
}
