/* policy/sampling.h - L2. Which allocations are sampled. Numbers in, numbers out.
 *
 * Points lie on the bytes that a program requests, at independent exponential distances with an average of `rate`
 * bytes. A block is sampled when at least one point lies in it. So a block of s bytes is sampled with the chance 1 -
 * exp(-s / rate), whatever came before it, and each sample stands for 1 / chance blocks of its size.
 *
 * Guards (space/guard_slot.h) take the same place on the slow path, and choose by count: each block with the chance 1 /
 * rate. Both are memoryless, so one countdown serves both: it ends at the next block that either chooses, and a draw
 * then says for which of the two, or for both. Each purpose keeps the chance that it has alone, so neither makes the
 * other biased.
 *
 * The pace. A program that requests tens of gigabytes a second, mostly the same few blocks again and again, would reach
 * a point every few microseconds and run slower. Estimates do not need that many samples. While the program is so fast,
 * points are drawn 2^shift times the rate apart, and each sample stands for as many more blocks. The distance to a
 * point depends only on what came before it, so estimates stay unbiased. Rates below HK_SAMPLING_RATE_PACED have no
 * pace: they are for users who want each sample at any cost.
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
#define HK_SAMPLING_RATE_MAX (4 * HK_GIB)

/* The rate in the low HK_SAMPLING_RATE_BITS bits, 0 while the profile is off; then one bit that is set while guards are
 * on; above it the number of starts and stops of either, so that a reader notices each change. One word, so every read
 * is a whole state. */
extern HK_HIDDEN _Atomic(uint64_t) hk_sampling_state;

#define HK_SAMPLING_GUARD_BIT (UINT64_C(1) << HK_SAMPLING_RATE_BITS)
HK_INLINE uint64_t hk_sampling_rate_of(uint64_t state) { return state & (HK_SAMPLING_GUARD_BIT - 1); }
/* Returns whether a heap with this state chooses blocks, for the profile or for guards. */
HK_INLINE bool hk_sampling_chooses(uint64_t state) { return (state & (2 * HK_SAMPLING_GUARD_BIT - 1)) != 0; }
HK_INLINE bool hk_sampling_is_on(void) { return hk_sampling_chooses(hk_load_relaxed(&hk_sampling_state)); }
HK_INLINE bool hk_sampling_has_profile(void) { return hk_sampling_rate_of(hk_load_relaxed(&hk_sampling_state)) != 0; }

/* Starts sampling. Requires a `rate` of 1 to HK_SAMPLING_RATE_MAX bytes. Returns false when sampling is on already. */
bool hk_sampling_begin(uint64_t rate);

/* Stops sampling. Returns false when it is off. */
bool hk_sampling_end(void);

/* Guards: one block in `hk_sampling_guard_rate` is chosen; 0 while guards are off. Written before hk_sampling_state, so
 * that a heap which follows the state finds this rate or a later one. */
extern HK_HIDDEN _Atomic(uint64_t) hk_sampling_guard_rate;
#define HK_SAMPLING_GUARD_RATE_MAX UINT64_C(1000000000)

/* Sets the rate of guards, of 0 to HK_SAMPLING_GUARD_RATE_MAX. One thread at a time. */
void hk_sampling_set_guard_rate(uint64_t rate);

/* The average number of points in one block, by purpose. A block is chosen for the profile with the chance 1 -
 * exp(-`profile`), and for a guard with 1 - exp(-`guard`), which is 1 / rate; each whatever the other is. */
typedef struct {
  double profile, guard;
} hk_sampling_points_t;

/* Returns the points of a block of `bytes`. A rate of 0 has none. */
hk_sampling_points_t hk_sampling_points(uint64_t bytes, uint64_t rate, uint64_t guard_rate);

/* Returns, for a random number, how many blocks come before the next one that is chosen for at least one of the two. */
uint64_t hk_sampling_blocks_before(uint64_t random, hk_sampling_points_t points);

/* What a block that is chosen is chosen for: at least one of the two. */
typedef struct {
  bool is_sample, is_guarded;
} hk_sampling_purpose_t;

/* Draws the purpose of a block that is chosen. Over all blocks, each purpose has its own chance, and the two are
 * independent. */
hk_sampling_purpose_t hk_sampling_purpose(uint64_t *random, hk_sampling_points_t points);

/* Returns the distance to the next point, in bytes, for a random number. */
uint64_t hk_sampling_distance(uint64_t random, uint64_t rate);

/* The pace of one heap, for the points of its small blocks. */
#define HK_SAMPLING_RATE_PACED (512 * HK_KIB)
#define HK_SAMPLING_PACE_POINTS 128   /* Chosen: this many points are reached at most in ... */
#define HK_SAMPLING_PACE_MS 16        /* ... this time of one thread: 8,000 a second, which take 0.2 to 0.7 us each */
#define HK_SAMPLING_PACE_SAVED_MS 128 /* unused time is saved up to this much, for a burst */
#define HK_SAMPLING_SHIFT_MAX 6
typedef struct {
  uint64_t since_ms; /* the start of the current count; 0: no point was drawn yet */
  uint16_t points;   /* points reached since then */
  uint16_t saved_ms;
  uint8_t shift;
} hk_sampling_pace_t;

/* Adapts `shift`, before a point is drawn. `now_ms` is monotonic, and may be some milliseconds old. */
void hk_sampling_keep_pace(hk_sampling_pace_t *pace, uint64_t now_ms);

/* Returns 1 - exp(-bytes / rate). */
double hk_sampling_chance(uint64_t bytes, uint64_t rate);

/* Returns 1 / chance, with 16 fractional bits. */
uint64_t hk_sampling_weight(uint64_t bytes, uint64_t rate);

HK_C_END

#endif /* HK_POLICY_SAMPLING_H */
