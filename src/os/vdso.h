/* os/vdso.h - L1. The kernel's clock as a function in the process, which is no system call. For os_linux.c alone. */
#ifndef HK_OS_VDSO_H
#define HK_OS_VDSO_H

#include <stdint.h>
#include <time.h>

/* Like clock_gettime, but answers a negated errno. */
typedef int hk_vdso_clock_t(long clock, struct timespec *now);

/* The function in the object that the kernel mapped at `header` (AT_SYSINFO_EHDR); NULL when there is none. */
hk_vdso_clock_t *hk_vdso_find_clock(uintptr_t header);

#endif /* HK_OS_VDSO_H */
