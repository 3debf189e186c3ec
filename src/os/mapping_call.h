/* os/mapping_call.h - L1. The system calls that make, move and end private mappings of zeros, and advise on them. Bare
 * calls; but under a sanitizer all except the advice are the C library's functions, which the sanitizer watches:
 * ThreadSanitizer then knows that an address has a new mapping. Each returns an address or 0, or a value that
 * hk_syscall_failed knows. Any thread; errno stays. */
#ifndef HK_OS_MAPPING_CALL_H
#define HK_OS_MAPPING_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* `access` as for mmap; `more_flags` besides MAP_PRIVATE | MAP_ANONYMOUS. */
long hk_mapping_call_map(uintptr_t hint, size_t bytes, int access, int more_flags);
long hk_mapping_call_unmap(uintptr_t start, size_t bytes);
long hk_mapping_call_remap(uintptr_t start, size_t old_bytes, size_t new_bytes, int flags, uintptr_t target);

/* `advice` as for madvise. Returns 0 or the negative error. */
long hk_mapping_call_advise(void *start, size_t bytes, int advice);

HK_C_END

#endif /* HK_OS_MAPPING_CALL_H */
