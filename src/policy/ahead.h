/* policy/ahead.h - L2. Decides how much memory may be made resident ahead of the program, which has not written to it:
 * large blocks of huge pages, and prefaulted blocks. Numbers in, numbers out.
 *
 * Whether the program fills a new block is not known. What it has filled so far tells how likely that is, and the
 * memory in use tells how much the error costs beside the rest. So memory ahead is bounded by a share of the written
 * memory in use. The share is lower where memory is dearer, and it doubles with each block in a row that was
 * found filled (docs/experiments/2026-11-24-memory-ahead.md).
 */
#ifndef HK_POLICY_AHEAD_H
#define HK_POLICY_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Chosen: this number of blocks filled in a row earns the whole share, one less half of it, and so on; none earns
 * nothing. */
#define HK_AHEAD_ROW 4
/* Chosen: the whole share at the balanced price is all of the written bytes. It falls with the price: a tenth at
 * `lean`. Below the balanced price it rises, to at most this many times as much. */
#define HK_AHEAD_MOST_SHARE 2

/* Starts as all zero. */
typedef struct {
  size_t unknown_bytes; /* blocks in use that were not resident when they were made, and were not seen filled */
  size_t ahead_bytes;   /* the part of them that was made resident, or may become so as huge pages */
} hk_ahead_t;

typedef struct {
  uint64_t ns_per_mib_second; /* the price */
  size_t in_use_bytes;        /* written or not */
  unsigned filled;            /* the blocks that were found filled in a row */
} hk_ahead_terms_t;

/* Returns how many bytes may be ahead. */
size_t hk_ahead_most_bytes(const hk_ahead_t *ahead, const hk_ahead_terms_t *terms);

/* Returns whether `bytes` more may be made resident ahead. */
bool hk_ahead_may(const hk_ahead_t *ahead, const hk_ahead_terms_t *terms, size_t bytes);

HK_C_END

#endif /* HK_POLICY_AHEAD_H */
