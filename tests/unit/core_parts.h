// The core's headers from space upwards, for C++: what they declare is C's.
#ifndef HK_TESTS_UNIT_CORE_PARTS_H
#define HK_TESTS_UNIT_CORE_PARTS_H

// Before the block below, because they bring C++'s own headers.
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/panic.h"
#include "os/node.h"
#include "os/os.h"
#include "os/peek.h"
#include "policy/option.h"
#include "policy/stat.h"
#include "policy/thp_policy.h"

extern "C" {
#include "api/address_class.h"
#include "api/process_purge.h"
#include "api/share_heaps.h"
#include "api/verify.h"
#include "heap/carve.h"
#include "heap/heap.h"
#include "heap/heap_check.h"
#include "heap/heap_flush.h"
#include "heap/mid.h"
#include "heap/orphan.h"
#include "heap/pool.h"
#include "heap/purge_drain.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/search.h"
#include "heap/span.h"
#include "heap/spare.h"
#include "heap/steal.h"
#include "heap/thread.h"
#include "space/extent.h"
#include "space/huge.h"
#include "space/large.h"
#include "space/meta.h"
#include "space/purge.h"
#include "space/region_map.h"
#include "space/run.h"
#include "space/slab.h"
#include "space/superslab.h"
#include "space/superslab_check.h"
#include "space/superslab_index.h"
}

#endif  // HK_TESTS_UNIT_CORE_PARTS_H
