/* policy/sampling.h - L2. Which allocations are sampled: numbers in, numbers out.
 *
 * Points lie on the bytes that a program asks for, at distances that know no past (exponential, `rate` bytes in the mean); a
 * block is sampled when at least one lies in it. So a block of s bytes is sampled with the chance 1 - exp(-s / rate),
 * whatever came before it, and each sampled one stands for 1 / chance of its kind.
 */
#ifndef HK_POLICY_SAMPLING_H
#define HK_POLICY_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

#define HK_SAMPLING_RATE_BITS 33
#define HK_SAMPLING_RATE_MOST (4 * HK_GIB)

/* The rate, 0 while nothing is sampled; above that how often it has begun and ended, so that one who looks now and then sees
 * each change. One word: whoever reads it has a whole state. */
extern HK_HIDDEN _Atomic(uint64_t) hk_sampling_state;

HK_INLINE uint64_t hk_sampling_rate_of(uint64_t state) { return state & ((UINT64_C(1) << HK_SAMPLING_RATE_BITS) - 1); }
HK_INLINE bool hk_sampling_is_on(void) { return hk_sampling_rate_of(hk_load_relaxed(&hk_sampling_state)) != 0; }

/* `rate` is 1 to HK_SAMPLING_RATE_MOST. False when it is on already. */
bool hk_sampling_begin(uint64_t rate);

/* False when it is not on. */
bool hk_sampling_end(void);

/* The next random number of a sequence. Any state will do, and one is as good as another. */
uint64_t hk_sampling_random(uint64_t *state);

/* How many bytes from here to the next point, for a random number. */
uint64_t hk_sampling_distance(uint64_t random, uint64_t rate);

/* How far the points for small blocks are drawn apart, for one heap. A program that asks for tens of gigabytes a second, by
 * far the most of it the same few blocks again and again, would come upon a point every few microseconds and notice the
 * profile; nobody needs so many. So points further apart than that are drawn, 2^shift times the rate, as long as it asks so
 * fast, and a sampled block stands for so many more. How far a point is drawn depends on what was before it alone: estimates
 * stay unbiased. Rates below HK_SAMPLING_RATE_PACED are for who wants each sample, whatever it costs. */
#define HK_SAMPLING_RATE_PACED (512 * HK_KIB)
#define HK_SAMPLING_PACE_POINTS 128   /* to be come upon in */
#define HK_SAMPLING_PACE_MS 16        /* so long, of a thread: 8,000 a second, which take 0.2 to 0.7 us each */
#define HK_SAMPLING_PACE_SAVED_MS 128 /* and as many more at once as would have fitted into this before */
#define HK_SAMPLING_SHIFT_MOST 6
typedef struct {
  uint64_t since_ms; /* 0: nothing was drawn yet */
  uint16_t points;   /* since then */
  uint16_t saved_ms;
  uint8_t shift;
} hk_sampling_pace_t;

/* Before a point is drawn: settles `shift`. The time is monotonic, and may be some milliseconds old. */
void hk_sampling_keep_pace(hk_sampling_pace_t *pace, uint64_t now_ms);

/* 1 - exp(-bytes / rate). */
double hk_sampling_chance(uint64_t bytes, uint64_t rate);

/* 1 / chance, with 16 bits after the point. */
uint64_t hk_sampling_weight(uint64_t bytes, uint64_t rate);

HK_C_END

#endif /* HK_POLICY_SAMPLING_H */
