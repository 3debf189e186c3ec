/* policy/fill.h - L2. Which sizes of large blocks a program fills as soon as it has them. Numbers in, numbers out.
 *
 * Memory that is made resident in one call costs two thirds of what the page faults would (docs/design.md, "Carving"), if all of
 * it is touched. Of a block nobody knows; known are others of about its size.
 */
#ifndef HK_POLICY_FILL_H
#define HK_POLICY_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

/* Chosen: the call for a larger block would take longer than a request should, about a ms for 4 MiB. */
#define HK_FILL_LEAST_BYTES (32 * HK_KIB + 1)
#define HK_FILL_MOST_BYTES (4 * HK_MIB)

/* One entry for each doubling of sizes between them. */
#define HK_FILL_SIZES 7

/* Chosen: so many in a row have to have been filled; and of so many blocks one is left to the program, so that it stays known. */
#define HK_FILL_ENOUGH 2
#define HK_FILL_SAMPLE_SHARE 16

typedef enum {
  hk_fill_leave,
  hk_fill_sample,   /* the same, and whether it was filled is to be told */
  hk_fill_prefault, /* all of it is to be made resident */
} hk_fill_wish_t;

/* All zero to begin with. */
typedef struct {
  struct {
    uint8_t filled;       /* so many of the last ones, up to HK_FILL_ENOUGH */
    uint8_t since_sample; /* wraps around at HK_FILL_SAMPLE_SHARE */
  } size[HK_FILL_SIZES];
} hk_fill_t;

/* Of a new block of any size, which is not resident. */
hk_fill_wish_t hk_fill_wish(hk_fill_t *fill, size_t bytes);

/* A sample of a size that is not left alone was filled, or ended before it was. */
void hk_fill_note(hk_fill_t *fill, size_t bytes, bool was_filled);

HK_C_END

#endif /* HK_POLICY_FILL_H */
