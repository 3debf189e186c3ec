/* os/vdso.h - L1. What the kernel answers by a function in the process, which is no system call: the time, and where a
 * thread runs. For os_time.c and os_node.c alone. */
#ifndef HK_OS_VDSO_H
#define HK_OS_VDSO_H

#include <stdint.h>
#include <time.h>

/* Like clock_gettime, but answers a negated errno. */
typedef int hk_vdso_clock_t(long clock, struct timespec *now);

/* Like getcpu, which knows no error where its pointers are good. */
typedef long hk_vdso_getcpu_t(unsigned *cpu, unsigned *node, void *unused);

/* The function in the object that the kernel mapped at `header` (AT_SYSINFO_EHDR); NULL when there is none. On arm64
 * there is no getcpu. */
hk_vdso_clock_t *hk_vdso_find_clock(uintptr_t header);
hk_vdso_getcpu_t *hk_vdso_find_getcpu(uintptr_t header);

#endif /* HK_OS_VDSO_H */
