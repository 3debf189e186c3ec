/* os/node.h - L1. Memory nodes (NUMA): the parts of a machine whose processors reach one part of its memory faster than
 * the rest. On a machine with one node, this costs a comparison.
 *
 * The library binds no memory to a node: the system takes each page from the node of the thread that touches it first.
 * Memory belongs to a node when a thread that ran there made it for its own use.
 */
#ifndef HK_OS_NODE_H
#define HK_OS_NODE_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

/* The highest number of nodes that are distinguished; on larger machines several nodes share a number. */
#define HK_NODE_MAX 32u

/* The number of nodes; 0 before the first call of hk_node_current. */
extern HK_HIDDEN _Atomic(unsigned) hk_node_count;

/* The rest of hk_node_current, on a machine that is not known to have one node. */
unsigned hk_node_current_slow(void);

HK_INLINE bool hk_node_is_only_one(void) { return HK_LIKELY(hk_load_relaxed(&hk_node_count) == 1); }

/* Returns the node that the calling thread is on, below hk_node_count. The thread may move to another one at any
 * moment. The first call reads the number of nodes from the system. */
HK_INLINE unsigned hk_node_current(void) { return hk_node_is_only_one() ? 0 : hk_node_current_slow(); }

HK_C_END

#endif /* HK_OS_NODE_H */
