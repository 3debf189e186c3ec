/* policy/ahead.h - L2. Decides how much memory may be made resident ahead of the program, which has not written to it:
 * large blocks of huge pages, and prefaulted blocks. Numbers in, numbers out.
 *
 * The program may leave a new block unfilled. The blocks that it has filled so far tell how likely that is, and the
 * memory that it has written tells how much an error costs beside the rest. So memory ahead is bounded by a share of
 * the most memory that the program has had written at once of late. The share is lower where memory is dearer, and
 * rises with the blocks in a row that were found filled (docs/experiments/2026-11-24-memory-ahead.md).
 */
#ifndef HK_POLICY_AHEAD_H
#define HK_POLICY_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Chosen: this number of blocks filled in a row earns the whole share. A single one earns nothing, and each further one
 * as much as the others. */
#define HK_AHEAD_ROW 4
/* Chosen: the whole share at the balanced price is all of the written bytes. It falls with the price: a tenth at
 * `lean`. Below the balanced price it rises, to at most this many times the written bytes. */
#define HK_AHEAD_MAX_TIMES 2
/* Chosen: the most that was written falls by this share with each new block. */
#define HK_AHEAD_FORGET_SHARE 64

/* Starts as all zero. */
typedef struct {
  size_t unknown_bytes; /* blocks in use that were not resident when they were made, and were not seen filled */
  size_t ahead_bytes;   /* the part of them that was made resident, or may become so as huge pages */
  size_t written_bytes; /* the most that was in use and not unknown, of late */
} hk_ahead_t;

typedef struct {
  uint64_t ns_per_mib_second; /* the price */
  size_t in_use_bytes;        /* unknown or not */
  unsigned filled;            /* the blocks that were found filled in a row */
} hk_ahead_terms_t;

/* Notes that a block is about to be made. */
void hk_ahead_note_block(hk_ahead_t *ahead);

/* Notes that a block was found filled and is no longer unknown, while `in_use_bytes` are in use. */
void hk_ahead_note_filled(hk_ahead_t *ahead, size_t in_use_bytes);

/* Returns how many bytes more may be ahead. */
size_t hk_ahead_room(const hk_ahead_t *ahead, const hk_ahead_terms_t *terms);

HK_C_END

#endif /* HK_POLICY_AHEAD_H */
