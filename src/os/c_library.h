/* os/c_library.h - L1. Which C library the code is compiled for. Code that differs tests HK_ON_MUSL, or is in
 * override/. */
#ifndef HK_OS_C_LIBRARY_H
#define HK_OS_C_LIBRARY_H

#include <features.h>

/* musl defines no macro of its own. */
#if defined(__GLIBC__)
#define HK_ON_MUSL 0
#else
#define HK_ON_MUSL 1
#endif

#endif /* HK_OS_C_LIBRARY_H */
