/* inspect/census.h - L8. Counts the blocks in all our memory, and divides what is resident of it into parts.
 *
 * Counts are exact while nobody allocates or frees; otherwise of different moments. A block that another thread has freed
 * counts as handed out until it came home, unless its span is one that a bin allocates from.
 */
#ifndef HK_INSPECT_CENSUS_H
#define HK_INSPECT_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect/survey.h"
#include "policy/size_class.h"

/* Of one size class or one heap, or of all runs or all large blocks, each of which counts as a span. */
typedef struct {
  uint64_t spans;
  uint64_t slabs;
  uint64_t live_blocks;
  uint64_t live_bytes;
  uint64_t free_blocks; /* cut, and not handed out */
  uint64_t free_bytes;
  uint64_t resident_bytes;
  uint64_t spans_nearly_empty;
} hk_census_count_t;

/* A span is nearly empty when at most this part of the blocks that it has room for is handed out. */
#define HK_CENSUS_NEARLY_EMPTY 8

typedef struct {
  hk_census_count_t of_class[HK_CLASS_COUNT];
  hk_census_count_t run;
  hk_census_count_t large;
  /* Resident bytes, each in one of these: */
  uint64_t live_bytes;
  uint64_t free_bytes;
  uint64_t uncarved_bytes;
  uint64_t kept_bytes;
  uint64_t idle_bytes;
  uint64_t lazy_bytes; /* given back, and not taken by the system yet */
  uint64_t large_idle_bytes;
  uint64_t metadata_bytes;
  uint64_t unused_bytes;      /* of uncarved_bytes, what lies in free slabs */
  uint64_t huge_excess_bytes; /* of uncarved_bytes, what never had blocks, and is there because a page is huge */
  uint64_t cached_bytes;      /* free slabs and free extents, resident or not */
  uint64_t superslabs_huge;
  uint64_t spans_estimated; /* all that was cut from them counts as handed out */
} hk_census_t;

/* The same spans by who owns them, in room of the caller's: of[i] is the heap's with number i + 1. A span counts for the heap
 * that owns it, whichever thread allocated or freed its blocks. Runs and large blocks have no owner. */
typedef struct {
  hk_census_count_t *of;
  size_t count;
  hk_census_count_t others; /* spans that change hands at that moment, and of heaps that there is no room for */
} hk_census_heaps_t;

/* Allocates nothing, and waits for nobody but for hk_lock_meta. `heaps` may be NULL. What `heaps` has adds up to what the classes
 * have, at any moment. */
void hk_census_take(hk_census_t *census, hk_census_heaps_t *heaps);

/* Chosen: so many bytes of memory are read for the counts of spans that bins allocate from: some 20 ms. */
#define HK_CENSUS_READ_BYTES (128 * HK_MIB)

/* Whether slab `i` is a span's first one. */
bool hk_census_is_span(const hk_survey_superslab_t *superslab, unsigned i);

/* How many blocks are handed out of the span that begins with slab `i`. What is read for that is taken from `*budget`; where
 * it cannot be read, `*is_estimate`: all that was cut counts. */
unsigned hk_census_live_blocks(const hk_survey_superslab_t *superslab, unsigned i, uint64_t *budget, bool *is_estimate);

#endif /* HK_INSPECT_CENSUS_H */
