/* os/peek.h - L1. Reads memory that another thread may unmap at the same moment. */
#ifndef HK_OS_PEEK_H
#define HK_OS_PEEK_H

#include <stdbool.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Copies the word at `address` to `*word`. Returns false when that address is not mapped. Slow: a system call. Where
 * the system does not offer the copy (containers, sandboxes), reads the word plainly if it can be read: memory that
 * another thread unmaps between the two faults. */
bool hk_os_peek(const void *address, void **word);

HK_C_END

#endif /* HK_OS_PEEK_H */
