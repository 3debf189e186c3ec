/* inspect/tag_counts.h - L8. Counts the blocks that were allocated and freed under tags. */
#ifndef HK_INSPECT_TAG_COUNTS_H
#define HK_INSPECT_TAG_COUNTS_H

#include <stdint.h>

#include "base/compiler.h"
#include "heap/named.h"

HK_C_BEGIN

/* Blocks, and their usable bytes. Those that are not live were freed. */
typedef struct {
  hk_named_t *tag; /* the caller sets it */
  uint64_t allocated_blocks;
  uint64_t allocated_bytes;
  uint64_t live_blocks;
  uint64_t live_bytes;
} hk_tag_counts_t;

/* Fills the counts of each of the tags, and the sum of all other tags unless `rest` is NULL. They are exact while no
 * thread allocates or frees a block of them; otherwise they are of different moments. Reads the descriptors of all
 * memory, the free blocks of spans that bins allocate from, and each block of the tags that another thread has freed
 * and its owner has not collected. Allocates nothing, and takes no lock. */
void hk_tag_counts_take(hk_tag_counts_t *counts, unsigned count, hk_tag_counts_t *rest);

HK_C_END

#endif /* HK_INSPECT_TAG_COUNTS_H */
