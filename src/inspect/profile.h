/* inspect/profile.h - L8. The heap profile: start and stop, and the record of each sampled block.
 *
 * heap/sample_countdown.h chooses the requests to sample. A sampled block is an ordinary one, a little longer. Its
 * address is not where the block starts. So every use of the address reaches api/verify.h, which looks samples up, and
 * no other code tests for them. The block is marked, so that a use of its start gets there too (heap/sample_mark.h).
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

/* The answer of the variant without checks, which samples nothing. */
#define HK_PROFILE_ABSENT "this variant has no heap profile; libhakmem.so has one"

/* Returns false when no profile ran. The samples stay known while their blocks live. */
bool hk_profile_stop(void);

/* Returns the number of the run that began last: 1 for the first one, 0 before it. A child of fork continues the
 * count. */
uint64_t hk_profile_run(void);

/* Returns whether a run goes on. Any thread. */
bool hk_profile_is_running(void);

/* Returns the rate; 0 while no profile runs. */
uint64_t hk_profile_rate(void);

/* Describes the run that began last; the rate is 0 before the first run. The sums of allocated blocks count from the
 * run's beginning. The sums of blocks in use count all samples that are live, whichever run they come from. */
hk_profile_facts_t hk_profile_facts(void);

/* Sums over all runs. */
typedef struct {
  uint64_t samples; /* sampled blocks */
  uint64_t lost;    /* samples that the table had no room for */
} hk_profile_sums_t;
hk_profile_sums_t hk_profile_sums(void);

HK_C_END

#endif /* HK_INSPECT_PROFILE_H */
