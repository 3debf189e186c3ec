/* os/vdso.c - L1. See vdso.h. The C library does not export the functions that it found in the object, and its
 * clock_gettime may be interposed by one that allocates. */
#include "os/vdso.h"

#include "os/loaded_symbol.h"

#if defined(__x86_64__)
#define CLOCK_SYMBOL "__vdso_clock_gettime"
#define GETCPU_SYMBOL "__vdso_getcpu"
#else
#define CLOCK_SYMBOL "__kernel_clock_gettime"
#define GETCPU_SYMBOL "__kernel_getcpu"
#endif

hk_vdso_clock_t *hk_vdso_find_clock(uintptr_t header) {
  return (hk_vdso_clock_t *)hk_loaded_symbol_find(header, CLOCK_SYMBOL);
}

hk_vdso_getcpu_t *hk_vdso_find_getcpu(uintptr_t header) {
  return (hk_vdso_getcpu_t *)hk_loaded_symbol_find(header, GETCPU_SYMBOL);
}
