/* os/node.h - L1. Memory nodes (NUMA): the parts of a machine whose processors reach one part of its memory sooner than
 * the rest. Where there is one node, to know that costs a comparison.
 *
 * No memory is bound to a node: the system takes each page from the node of the thread that touches it first. What is
 * said to belong to a node was made by a thread that was there, for itself to touch.
 */
#ifndef HK_OS_NODE_H
#define HK_OS_NODE_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

/* Nodes are told apart up to this number; more share. */
#define HK_NODE_MAX 64u

/* How many there are; 0 before the first call of hk_node_current. */
extern HK_HIDDEN _Atomic(unsigned) hk_node_count;

/* What hk_node_current does elsewhere than on a machine known to have one node. */
unsigned hk_node_current_slow(void);

HK_INLINE bool hk_node_is_only_one(void) { return HK_LIKELY(hk_load_relaxed(&hk_node_count) == 1); }

/* The node that the calling thread is on: below hk_node_count. It may be on another one at any moment. The first call
 * asks the system how many there are. */
HK_INLINE unsigned hk_node_current(void) { return hk_node_is_only_one() ? 0 : hk_node_current_slow(); }

HK_C_END

#endif /* HK_OS_NODE_H */
