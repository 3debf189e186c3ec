/* policy/prefault_policy.h - L2. Decides which large blocks to prefault, by the sizes that a program fills as soon as
 * it has them. Numbers in, numbers out.
 *
 * One call costs two thirds of the page faults that it replaces, or up to as much: it depends on the machine and on the
 * size (docs/experiments/2026-11-22-prefault-spans.md, 2026-11-24-measured-costs.md, 2026-11-29-a-page-a-refill.md). It
 * saves them only if the program touches all of the memory. Whether it fills a new block is not known. So the policy
 * samples blocks of about the same size (docs/experiments/2026-11-23-prefault-large.md).
 */
#ifndef HK_POLICY_PREFAULT_POLICY_H
#define HK_POLICY_PREFAULT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

/* The bounds of the sizes, in bytes: blocks above 32 KiB. Chosen: the largest. A call for 64 MiB takes 15 ms; the
 * program's own 16,384 page faults would take half as much more. */
#define HK_PREFAULT_MIN_BYTES (32 * HK_KIB + 1)
#define HK_PREFAULT_MAX_BYTES (64 * HK_MIB)

/* One entry for each doubling of sizes between those bounds. */
#define HK_PREFAULT_SIZES 11

/* Chosen: HK_PREFAULT_ENOUGH samples in a row have to be filled first. Then as many blocks as were filled in a row, at
 * most HK_PREFAULT_MAX and HK_PREFAULT_AHEAD_BYTES of each size, are prefaulted before the next sample. So never more
 * blocks in a row are prefaulted in vain than were filled. With a memory limit no block above 1/HK_PREFAULT_LIMIT_SHARE
 * of it is prefaulted. */
#define HK_PREFAULT_ENOUGH 2
#define HK_PREFAULT_MAX 15
#define HK_PREFAULT_AHEAD_BYTES (64 * HK_MIB)
#define HK_PREFAULT_LIMIT_SHARE 64

typedef enum {
  hk_prefault_leave,
  hk_prefault_sample, /* as leave; the caller notes whether the block was filled */
  hk_prefault_whole,  /* the caller prefaults the whole block */
} hk_prefault_advice_t;

/* Starts as all zero. */
typedef struct {
  struct {
    uint8_t filled;     /* filled samples in a row, up to HK_PREFAULT_MAX */
    uint8_t prefaulted; /* prefaulted blocks since the last sample was noted */
  } size[HK_PREFAULT_SIZES];
} hk_prefault_policy_t;

/* Advises on a new block of any size that is not resident. `limit_bytes` is the memory limit; 0: there is none. */
hk_prefault_advice_t hk_prefault_policy_advise(hk_prefault_policy_t *policy, size_t bytes, size_t limit_bytes);

/* Notes the result of a sample. `was_filled` is false for a sample that ended before it was filled, or that the caller
 * gave up. */
void hk_prefault_policy_note(hk_prefault_policy_t *policy, size_t bytes, bool was_filled);

/* Returns how many samples of that size were filled in a row. */
unsigned hk_prefault_policy_filled(const hk_prefault_policy_t *policy, size_t bytes);

HK_C_END

#endif /* HK_POLICY_PREFAULT_POLICY_H */
