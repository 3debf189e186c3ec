/* os/vdso.h - L1. Finds the kernel's functions in the process that need no system call: the time, and the processor of
 * a thread. For os_time.c and os_node.c alone. */
#ifndef HK_OS_VDSO_H
#define HK_OS_VDSO_H

#include <stdint.h>
#include <time.h>

/* Like clock_gettime, but returns a negated errno. */
typedef int hk_vdso_clock_t(long clock, struct timespec *now);

/* Like getcpu, which has no error where its pointers are valid. */
typedef long hk_vdso_getcpu_t(unsigned *cpu, unsigned *node, void *unused);

/* Returns the function in the object that the kernel mapped at `header` (AT_SYSINFO_EHDR); NULL when there is none. On
 * arm64 there is no getcpu. */
hk_vdso_clock_t *hk_vdso_find_clock(uintptr_t header);
hk_vdso_getcpu_t *hk_vdso_find_getcpu(uintptr_t header);

#endif /* HK_OS_VDSO_H */
