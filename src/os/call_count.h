/* os/call_count.h - L1. Counts of the library's system calls, by kind, in every build. An atomic addition costs little
 * beside a system call. */
#ifndef HK_OS_CALL_COUNT_H
#define HK_OS_CALL_COUNT_H

#include <stdint.h>
#include <sys/syscall.h>

#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

typedef enum {
  hk_call_map, /* makes, grows or moves a mapping */
  hk_call_unmap,
  hk_call_advise, /* purges, advises huge pages, sets what a fork does with the pages */
  hk_call_other,
  hk_call_kind_count
} hk_call_kind_t;

/* Any thread adds, relaxed. */
extern HK_HIDDEN _Atomic(uint64_t) hk_call_counts[hk_call_kind_count];

/* Counts a call. Called with a constant number, it compiles to the addition alone. */
HK_INLINE void hk_call_count_note(long number) {
  hk_call_kind_t kind = number == SYS_mmap || number == SYS_mremap ? hk_call_map
                        : number == SYS_munmap                     ? hk_call_unmap
                        : number == SYS_madvise                    ? hk_call_advise
                                                                   : hk_call_other;
  (void)hk_add_relaxed(&hk_call_counts[kind], 1);
}

/* Returns the number of calls of one kind so far. */
uint64_t hk_call_count(hk_call_kind_t kind);

/* Sets all counts to zero. Requires that one thread exists. */
void hk_call_count_clear(void);

HK_C_END

#endif /* HK_OS_CALL_COUNT_H */
