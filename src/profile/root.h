/* profile/root.h - L5. Where a program's own pointers are, apart from its blocks: in all memory that it can write to, stacks, static
 * and thread-local data among it, and in what it wrote once and has only read since. Not in what is the allocator's. */
#ifndef HK_PROFILE_ROOT_H
#define HK_PROFILE_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/reach.h"

HK_C_BEGIN

/* Follows what is found there. `frame`: below that address the calling thread's stack is of no interest. Files that are shared with
 * others, and devices, are left out. False when the system does not say what is mapped. */
bool hk_root_follow_all(hk_reach_t *reach, uintptr_t frame);

HK_C_END

#endif /* HK_PROFILE_ROOT_H */
