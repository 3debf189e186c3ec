/* inspect/census.h - L8. Counts the blocks in all memory of the allocator, and divides its resident bytes into parts.
 *
 * Counts are exact while no thread allocates or frees; otherwise they are of different moments. A block that another
 * thread has freed counts as handed out until its owner collects it, unless a bin allocates from its span.
 */
#ifndef HK_INSPECT_CENSUS_H
#define HK_INSPECT_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect/survey.h"
#include "policy/size_class.h"

/* Counts of one size class, one heap, all runs or all large blocks. Each run and each large block counts as a span. */
typedef struct {
  uint64_t spans;
  uint64_t slabs;
  uint64_t live_blocks;
  uint64_t live_bytes;
  uint64_t free_blocks; /* carved, and not handed out */
  uint64_t free_bytes;
  uint64_t resident_bytes;
  uint64_t spans_nearly_empty;
} hk_census_count_t;

/* A span is nearly empty when at most 1/HK_CENSUS_NEARLY_EMPTY of its capacity is handed out. */
#define HK_CENSUS_NEARLY_EMPTY 8

typedef struct {
  hk_census_count_t of_class[HK_CLASS_COUNT];
  hk_census_count_t run;
  hk_census_count_t large;
  /* Resident bytes: each byte is in exactly one of these. */
  uint64_t live_bytes;
  uint64_t free_bytes;
  uint64_t uncarved_bytes;
  uint64_t kept_bytes;
  uint64_t dirty_bytes;
  uint64_t lazy_bytes; /* lazily purged, and not taken by the kernel yet */
  uint64_t large_dirty_bytes;
  uint64_t metadata_bytes;
  uint64_t unused_bytes; /* part of uncarved_bytes that lies in free slabs */
  /* part of uncarved_bytes that is resident because its page is huge, or was prefaulted in a large block; of large
   * blocks an estimate */
  uint64_t huge_excess_bytes;
  uint64_t cached_bytes; /* free slabs and free extents, resident or not */
  uint64_t superslabs_huge;
  uint64_t spans_estimated; /* spans whose carved blocks all count as handed out */
} hk_census_t;

/* The counts of the spans by owner. The caller provides the room: of[i] is the heap with number i + 1. A span counts
 * for the heap that owns it, whichever thread allocated or freed its blocks. Runs and large blocks have no owner. */
typedef struct {
  hk_census_count_t *of;
  size_t count;
  hk_census_count_t others; /* spans that change their owner meanwhile, and spans of heaps beyond `count` */
} hk_census_heaps_t;

/* Takes a census. Allocates nothing and takes only hk_lock_meta. `heaps` may be NULL. The counts of `heaps` add up to
 * those of the size classes at any moment. */
void hk_census_take(hk_census_t *census, hk_census_heaps_t *heaps);

/* Chosen: the pages of a large block that are looked at, if some of its memory may never have been written. */
#define HK_CENSUS_PAGES 64

/* Memory that a census reads, to count the blocks of spans that bins allocate from. Chosen: this takes about 20 ms. */
#define HK_CENSUS_READ_BYTES (128 * HK_MIB)

/* Returns whether slab `i` is the first slab of a span. */
bool hk_census_is_span(const hk_survey_superslab_t *superslab, unsigned i);

/* Returns the number of live blocks of the span that begins with slab `i`. Subtracts the bytes that it reads from
 * `*budget`. Where it cannot read them, it sets `*is_estimate` and counts all carved blocks as live. */
unsigned hk_census_live_blocks(const hk_survey_superslab_t *superslab, unsigned i, uint64_t *budget, bool *is_estimate);

#endif /* HK_INSPECT_CENSUS_H */
