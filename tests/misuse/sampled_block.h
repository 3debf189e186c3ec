/* tests/misuse/sampled_block.h - for the programs whose mistake is about a block that the heap profile has sampled. */
#ifndef HK_TESTS_MISUSE_SAMPLED_BLOCK_H
#define HK_TESTS_MISUSE_SAMPLED_BLOCK_H

#include "scenario.h"

_Bool hakmem_profile_start(size_t rate) __attribute__((weak));

/* Lets the profile sample each block from now on. Under another malloc, does nothing. */
static inline void sample_all(void) {
  if (hakmem_profile_start != NULL) (void)hakmem_profile_start(1);
}

/* A new sampled block that stays in use to the end. */
static inline char *keep_sampled(size_t size) {
  sample_all();
  return (char *)keep(size);
}

#endif
