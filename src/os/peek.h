/* os/peek.h - L1. Reading memory that another thread may unmap at the same moment. */
#ifndef HK_OS_PEEK_H
#define HK_OS_PEEK_H

#include <stdbool.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Copies the word at `address` to `*word`. False when nothing is mapped there. Slow: a system call. Where the system
 * does not offer the copy (containers, sandboxes), the word is read plainly if it can be read: memory that is
 * unmapped in between is a fault. */
bool hk_os_peek(const void *address, void **word);

HK_C_END

#endif /* HK_OS_PEEK_H */
