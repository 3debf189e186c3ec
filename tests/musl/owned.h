/* Whether a block is hakmem's, in programs that are linked with the archive, and in those that it is preloaded into. */
#ifndef HK_TESTS_MUSL_OWNED_H
#define HK_TESTS_MUSL_OWNED_H

#include <stdbool.h>
#include <stddef.h>

extern bool hakmem_check_owned(const void *address) __attribute__((weak));

static inline bool is_owned(const void *block) { return hakmem_check_owned != NULL && hakmem_check_owned(block); }

#endif /* HK_TESTS_MUSL_OWNED_H */
