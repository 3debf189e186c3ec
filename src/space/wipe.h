/* space/wipe.h - L3. Memory of a hardened build that is compared with zero, and filled with zeros. */
#ifndef HK_SPACE_WIPE_H
#define HK_SPACE_WIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/units.h"

typedef uint64_t hk_pair_t __attribute__((vector_size(16), may_alias));

HK_INLINE bool hk_pair_is_zero(hk_pair_t pair) { return (pair[0] | pair[1]) == 0; }

/* Returns whether [from, to) of a block is zero. Both are multiples of 16. */
HK_INLINE bool hk_wipe_is_zero(const void *block, size_t from, size_t to) {
  const hk_pair_t *pair = (const hk_pair_t *)((uintptr_t)block + from),
                  *end = (const hk_pair_t *)((uintptr_t)block + to);
  hk_pair_t any = {0, 0};
  for (; end - pair >= 4; pair += 4) any |= (pair[0] | pair[1]) | (pair[2] | pair[3]);
  for (; pair < end; pair++) any |= *pair;
  return hk_pair_is_zero(any);
}

/* Chosen: up to this size a loop stores zeros; above, the C library's memset does. */
#define HK_WIPE_INLINE_BYTES 128
/* A large part of a block is written only where it is not zero: the program may not have used it, and a page that was
 * never written to takes no memory. */
#define HK_WIPE_PART_BYTES (4 * HK_KIB)
#define HK_WIPE_STEP_BYTES 256

HK_INLINE void hk_wipe_large(char *block, size_t bytes) {
  for (size_t at = 0; at < bytes; at += HK_WIPE_PART_BYTES) {
    size_t end = bytes - at < HK_WIPE_PART_BYTES ? bytes : at + HK_WIPE_PART_BYTES;
    for (size_t step = at; step < end; step += HK_WIPE_STEP_BYTES) {
      size_t stop = end - step < HK_WIPE_STEP_BYTES ? end : step + HK_WIPE_STEP_BYTES;
      if (hk_wipe_is_zero(block, step, stop)) continue;
      memset(block + step, 0, end - step);
      break;
    }
  }
}

/* Fills a block with zeros. `bytes` is a multiple of 16, and not 0. */
HK_INLINE void hk_wipe(void *block, size_t bytes) {
  if (HK_LIKELY(bytes <= HK_WIPE_INLINE_BYTES)) {
    hk_pair_t *pair = (hk_pair_t *)block, *end = (hk_pair_t *)((uintptr_t)block + bytes);
    do {
      *pair++ = (hk_pair_t){0, 0};
      HK_FORGET(pair); /* otherwise the compiler calls memset here too */
    } while (pair < end);
  } else if (bytes <= HK_WIPE_PART_BYTES) {
    memset(block, 0, bytes);
  } else {
    hk_wipe_large((char *)block, bytes);
  }
}

#endif /* HK_SPACE_WIPE_H */
