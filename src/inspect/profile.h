/* inspect/profile.h - L8. The heap profile: on and off, and what becomes of the blocks that are sampled.
 *
 * Which requests are sampled is settled below (heap/sample_countdown.h). A sampled block is an ordinary one, a little longer; its address
 * is not where the block starts, so that whatever is done with it finds its way to where samples are looked up
 * (api/verify.h), and nothing else has to ask.
 */
#ifndef HK_INSPECT_PROFILE_H
#define HK_INSPECT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "inspect/sample.h"
#include "pprof/pprof.h"

HK_C_BEGIN

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

/* Of all runs. */
typedef struct {
  uint64_t samples; /* blocks that were sampled */
  uint64_t lost;    /* and those that there was no room for */
} hk_profile_sums_t;
hk_profile_sums_t hk_profile_sums(void);

/* Calls `visit` for each sampled block that is live, with a copy, and under no lock. */
void hk_profile_each_sample(void (*visit)(const hk_sample_t *sample, void *context), void *context);

HK_C_END

#endif /* HK_INSPECT_PROFILE_H */
