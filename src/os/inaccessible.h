/* os/inaccessible.h - L1. Ranges of addresses that no access may touch, and pages of them that are opened and closed
 * again. Each function makes one system call, which every allocator makes (mmap), so a filter that permits an allocator
 * permits these. Sizes are whole OS pages. Any thread; errno stays. */
#ifndef HK_OS_INACCESSIBLE_H
#define HK_OS_INACCESSIBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Reserves inaccessible addresses, without memory. Returns NULL when the system refuses. */
void *hk_inaccessible_reserve(size_t bytes);

/* Unmaps such a range. */
void hk_inaccessible_release(void *start, size_t bytes);

/* Makes pages of such a range readable, writable and zero. Adds two mappings at most. Returns false when the system
 * refuses: the pages are inaccessible then. */
bool hk_inaccessible_open(void *start, size_t bytes);

/* Drops the contents of pages and makes them inaccessible again; the mappings that hk_inaccessible_open has added
 * merge. Returns false when the system refuses: the pages are accessible then. */
bool hk_inaccessible_close(void *start, size_t bytes);

HK_C_END

#endif /* HK_OS_INACCESSIBLE_H */
