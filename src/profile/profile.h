/* profile/profile.h - L5. The heap profile: on and off, and what becomes of the blocks that are sampled.
 *
 * Which requests are sampled is settled below (heap/sample_countdown.h). A sampled block is an ordinary one, a little longer; its address
 * is not where the block starts, so that whatever is done with it finds its way to where samples are looked up
 * (api/verify.h), and nothing else has to ask.
 */
#ifndef HK_PROFILE_PROFILE_H
#define HK_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/pprof.h"
#include "profile/sample.h"

HK_C_BEGIN

/* Samples from now on one block for each `rate` bytes in the mean; 0 means what HAKMEM_PROFILE_RATE says. A thread follows at
 * its next slow path. False when it is on already, and in a build without checks, which could not tell a sampled block. */
bool hk_profile_start(uint64_t rate);

/* False when it was not on. What was sampled stays known as long as it lives. */
bool hk_profile_stop(void);

/* The number of the run that began last, one higher for each; 0: none did. A child of fork goes on counting. */
uint64_t hk_profile_run(void);

bool hk_profile_is_running(void);

/* The rate; 0 while it is off. */
uint64_t hk_profile_rate(void);

/* Of the run that began last; a rate of 0: none ever did. What was allocated is told since its beginning, what is in use is all
 * that was sampled at any time. */
hk_profile_span_t hk_profile_span(void);

/* In a child of fork: what was allocated is told since now. What is in use is its parent's too. */
void hk_profile_begin_child(void);

/* Of all runs. */
typedef struct {
  uint64_t samples; /* blocks that were sampled */
  uint64_t lost;    /* and those that there was no room for */
} hk_profile_sums_t;
hk_profile_sums_t hk_profile_sums(void);

/* Calls `visit` for each sampled block that is live, with a copy, and under no lock. */
void hk_profile_each_sample(void (*visit)(const hk_sample_t *sample, void *context), void *context);

/* Whether the calling thread is inside the profile: what it, or a signal handler, allocates there is not sampled. */
bool hk_profile_is_inside(void);

/* ---- For who hands blocks out. All without a lock, and outside any heap. */

/* A block is about to be noted: what that needs may be fetched meanwhile. */
void hk_profile_expect(void);

/* Makes a sample of the block behind `address`, `offset` bytes behind its start; `bytes` is what the request would
 * have been given otherwise. A weight of 0: it stands for nothing, and is known so that it can be freed. False when there is
 * no room. */
bool hk_profile_note(uintptr_t address, size_t offset, size_t requested, size_t bytes, uint64_t weight_q16);

/* A sampled block is about to be freed, or to be another one (`is_freed` false). False when it is no live one any more:
 * another thread was first. */
bool hk_profile_forget(uintptr_t address, bool is_freed);

HK_C_END

#endif /* HK_PROFILE_PROFILE_H */
