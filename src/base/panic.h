/* base/panic.h - L0. Ends the process when the allocator finds its own state broken. */
#ifndef HK_BASE_PANIC_H
#define HK_BASE_PANIC_H

#include "base/compiler.h"

HK_C_BEGIN

#ifndef HK_DEBUG
#define HK_DEBUG 0
#endif

/* Writes "hakmem: internal error: <sentence> (<file>:<line>)" to file descriptor 2 by a bare system call and ends the
 * process with SIGABRT. Never returns, never allocates. */
HK_NORETURN HK_COLD void hk_panic(const char *file, int line, const char *sentence);

/* Checked in every build: conditions without which memory would be lost. */
#define HK_REQUIRE(condition, sentence)                                      \
  do {                                                                       \
    if (HK_UNLIKELY(!(condition))) hk_panic(__FILE__, __LINE__, (sentence)); \
  } while (0)

/* Checked in debug builds only (HK_DEBUG=1). */
#if HK_DEBUG
#define HK_ASSERT(condition, sentence) HK_REQUIRE(condition, sentence)
#else
#define HK_ASSERT(condition, sentence) ((void)sizeof(condition))
#endif

HK_C_END

#endif /* HK_BASE_PANIC_H */
