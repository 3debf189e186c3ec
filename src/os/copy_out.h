/* os/copy_out.h - L1. Copies of memory that may not be there, or may go away at this moment: stacks that may be damaged, other
 * people's tables. */
#ifndef HK_OS_COPY_OUT_H
#define HK_OS_COPY_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Copies up to `bytes` from `address`, and says how many there were before the first page that cannot be read. A system call;
 * no data race, for the kernel copies. Where the system does not offer it (some containers), it is asked page by page
 * whether the memory can be read, which is then read plainly: there a page that somebody unmaps in between is a fault. */
size_t hk_os_copy_out(void *to, uintptr_t address, size_t bytes);

/* The same copy with no way around it: how many bytes, or a negated error number. -EFAULT: nothing is mapped at `address`; others: the
 * system does not offer it. */
long hk_os_copy_by_kernel(void *to, uintptr_t address, size_t bytes);

/* Copies memory of ours that other threads write or unmap meanwhile: each aligned word as it is at some moment. False, and `to` has
 * anything in it, when a part is not mapped or the system does not offer this. */
bool hk_os_copy(void *to, const void *from, size_t bytes);

/* Whether the memory there can be read now, a whole page of it. A system call, some ten times as quick as a copy. */
bool hk_os_can_read(uintptr_t address);

/* From here on as where the system does not offer it. For tests. */
void hk_os_copy_out_refuse(void);

HK_C_END

#endif /* HK_OS_COPY_OUT_H */
