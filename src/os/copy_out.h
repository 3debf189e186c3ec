/* os/copy_out.h - L1. Copies of memory that may be unmapped, or become so during the call: stacks that may be damaged,
 * tables of other libraries. */
#ifndef HK_OS_COPY_OUT_H
#define HK_OS_COPY_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Copies up to `bytes` from `address` and returns how many there were before the first page that cannot be read. A
 * system call, without a data race, because the kernel copies. Where the system does not offer the call (some
 * containers), checks page by page whether the memory can be read and then reads it plainly. In that case a page that
 * another thread unmaps between the two faults. */
size_t hk_os_copy_out(void *to, uintptr_t address, size_t bytes);

/* Copies by the kernel alone. Returns the number of bytes, or a negated error number. -EFAULT: `address` is not mapped.
 * Other errors: the system does not offer the call. */
long hk_os_copy_by_kernel(void *to, uintptr_t address, size_t bytes);

/* Copies memory of the library that other threads write or unmap meanwhile. Each aligned word has a value of some
 * moment. Returns false, with `to` unspecified, when a part is not mapped or the system does not offer the call. */
bool hk_os_copy(void *to, const void *from, size_t bytes);

/* Returns whether the whole page with `address` can be read now. A system call, about ten times as quick as a copy. */
bool hk_os_can_read(uintptr_t address);

/* Returns whether the page is mapped and a byte of it is not 0. A page of zeros may have been written too. */
bool hk_os_is_written(uintptr_t page);

/* For tests: behaves from now on as where the system does not offer the copy. */
void hk_os_copy_out_refuse(void);

HK_C_END

#endif /* HK_OS_COPY_OUT_H */
