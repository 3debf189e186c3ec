/* policy/prefault_policy.h - L2. Which sizes of large blocks a program fills as soon as it has them. Numbers in, numbers out.
 *
 * Memory that is made resident in one call costs two thirds of what the page faults would (docs/design.md, "Carving"), if all of
 * it is touched. Of a block nobody knows; known are others of about its size.
 */
#ifndef HK_POLICY_PREFAULT_POLICY_H
#define HK_POLICY_PREFAULT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

/* Large blocks are those of more than 32 KiB. Chosen: larger ones than the other are left alone. A request for as much takes 15 ms, which
 * the program would spend right after on 16,384 page faults, and half as much more. */
#define HK_PREFAULT_LEAST_BYTES (32 * HK_KIB + 1)
#define HK_PREFAULT_MOST_BYTES (64 * HK_MIB)

/* One entry for each doubling of sizes between them. */
#define HK_PREFAULT_SIZES 11

/* Chosen: so many in a row have to have been filled. As many as were filled in a row, up to the most, are then made resident, and the
 * next ones are left to the program until one of them has told: so never more of them in a row are resident for nothing than were
 * filled. Nor more than so many bytes for each size; and where memory has a limit none of more than that part of it. */
#define HK_PREFAULT_ENOUGH 2
#define HK_PREFAULT_MOST 15
#define HK_PREFAULT_AHEAD_BYTES (64 * HK_MIB)
#define HK_PREFAULT_LIMIT_SHARE 64

typedef enum {
  hk_prefault_leave,
  hk_prefault_sample, /* the same, and whether it was filled is to be told */
  hk_prefault_whole,  /* all of it is to be made resident */
} hk_prefault_advice_t;

/* All zero to begin with. */
typedef struct {
  struct {
    uint8_t filled;     /* so many samples in a row, up to HK_PREFAULT_MOST */
    uint8_t prefaulted; /* so many blocks since the last sample told */
  } size[HK_PREFAULT_SIZES];
} hk_prefault_policy_t;

/* Of a new block of any size, which is not resident. `limit_bytes` of memory may be had; 0: there is no limit. */
hk_prefault_advice_t hk_prefault_policy_advise(hk_prefault_policy_t *policy, size_t bytes, size_t limit_bytes);

/* What a sample has told: it was filled, or it was not and has ended, or nobody waits for it any longer. */
void hk_prefault_policy_note(hk_prefault_policy_t *policy, size_t bytes, bool was_filled);

HK_C_END

#endif /* HK_POLICY_PREFAULT_POLICY_H */
