/* os/shard.c - L1. See shard.h. Shards are numbered node by node. */
#include "os/shard.h"

#include <assert.h>

#include "os/node.h"
#include "os/os.h"

/* Chosen: by the counts of docs/scaling.md, threads of eight processors seldom meet. */
#define CPUS_OF_A_SHARD 8

static_assert(HK_NODE_MAX <= HK_SHARD_MAX, "each node has a shard");

_Atomic(unsigned) hk_shard_count;

/* The shards of each node, and the processors in a row that have the same one. */
static _Atomic(unsigned) of_node, row;

static unsigned node_count(void) {
  (void)hk_node_current(); /* the first call counts them */
  return hk_load_relaxed(&hk_node_count);
}

static void set(unsigned nodes, unsigned each) {
  unsigned most = HK_SHARD_MAX / nodes;
  if (each > most) each = most;
  if (nodes * each <= hk_load_relaxed(&hk_shard_count)) return;
  hk_store_relaxed(&of_node, each);
  hk_store_relaxed(&hk_shard_count, nodes * each);
}

static HK_COLD void find_count(void) {
  hk_store_relaxed(&row, CPUS_OF_A_SHARD);
  unsigned nodes = node_count(), cpus = nodes * CPUS_OF_A_SHARD;
  set(nodes, (hk_os_cpu_count() + cpus - 1) / cpus);
}

unsigned hk_shard_current_slow(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_shard_count) == 0)) find_count();
  if (hk_load_relaxed(&hk_shard_count) == 1) return 0;
  unsigned each = hk_load_relaxed(&of_node);
  hk_os_place_t place = hk_os_current_place();
  return place.node % hk_load_relaxed(&hk_node_count) * each + place.cpu / hk_load_relaxed(&row) % each;
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
  hk_store_relaxed(&row, 1);
  set(node_count(), count);
}
