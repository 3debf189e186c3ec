/* os/call_count.h - L1. How many system calls we have made, by kind: every build counts them. An atomic addition beside a
 * system call is nothing. */
#ifndef HK_OS_CALL_COUNT_H
#define HK_OS_CALL_COUNT_H

#include <stdint.h>
#include <sys/syscall.h>

#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

typedef enum {
  hk_call_map, /* makes a mapping, grows or moves one */
  hk_call_unmap,
  hk_call_advise, /* gives pages back, asks for huge ones, says what a fork does with them */
  hk_call_other,
  hk_call_kind_count
} hk_call_kind_t;

/* Any thread adds. */
extern HK_HIDDEN _Atomic(uint64_t) hk_call_counts[hk_call_kind_count];

/* To be called with a constant: nothing of it is left but the addition. */
HK_INLINE void hk_call_count_note(long number) {
  hk_call_kind_t kind = number == SYS_mmap || number == SYS_mremap ? hk_call_map
                        : number == SYS_munmap                     ? hk_call_unmap
                        : number == SYS_madvise                    ? hk_call_advise
                                                                   : hk_call_other;
  (void)hk_add_relaxed(&hk_call_counts[kind], 1);
}

/* Those of one kind so far. */
uint64_t hk_call_count(hk_call_kind_t kind);

/* Sets them all to zero. While one thread exists. */
void hk_call_count_clear(void);

HK_C_END

#endif /* HK_OS_CALL_COUNT_H */
