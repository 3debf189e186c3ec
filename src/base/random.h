/* base/random.h - L0. Random numbers from a state of the caller's. A few of them tell the state. */
#ifndef HK_BASE_RANDOM_H
#define HK_BASE_RANDOM_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns the next number of a sequence, all of whose bits are equally random. Any state is a valid start. SplitMix64
 * (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014). */
uint64_t hk_random(uint64_t *state);

/* Returns a number below `bound`, a power of two up to 2^24, in fewer instructions. Any state is a valid start. A
 * linear congruential generator (D. Knuth, The Art of Computer Programming 2, 3.3.4), whose highest bits are the best.
 */
HK_INLINE unsigned hk_random_below(uint64_t *state, unsigned bound) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(*state >> 40) & (bound - 1);
}

HK_C_END

#endif /* HK_BASE_RANDOM_H */
