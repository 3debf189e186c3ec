/* os/peek.h - L1. Reading memory that another thread may unmap at the same moment. */
#ifndef HK_OS_PEEK_H
#define HK_OS_PEEK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Copies the word at `address` to `*word`. False when nothing is mapped there. Slow: a system call. Where the system
 * does not offer it (old kernels, some containers), the word is read plainly. */
bool hk_os_peek(const void *address, void **word);

/* Copies memory that other threads write or unmap meanwhile: each aligned word as it is at some moment. False, and `to` has
 * anything in it, when a part is not mapped or the system does not offer this. A system call. */
bool hk_os_copy(void *to, const void *from, size_t bytes);

HK_C_END

#endif /* HK_OS_PEEK_H */
