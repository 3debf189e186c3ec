/* inspect/survey.h - L8. Visits all memory of the allocator while its owners use it.
 *
 * Descriptors are plain fields that their owners write. So the kernel copies them: a copy may mix values of different
 * moments, but it is no data race, and it does not fault where memory was unmapped. A survey takes no lock, allocates
 * nothing and never waits. The kernel tells which pages are resident.
 */
#ifndef HK_INSPECT_SURVEY_H
#define HK_INSPECT_SURVEY_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"
#include "space/superslab_index.h"

/* Pages have at least 4 KiB. */
#define HK_SURVEY_PAGES_MAX (HK_SUPERSLAB_BYTES / (4 * HK_KIB))

/* A copy of a superslab. */
typedef struct {
  /* Copies: a pointer into this array is no slab's address. */
  alignas(HK_CACHE_LINE_BYTES) hk_slab_t slab[HK_SUPERSLAB_SLABS];
  hk_slab_t *first; /* the originals */
  hk_superslab_t record;
  uintptr_t start;
  unsigned char is_resident[HK_SURVEY_PAGES_MAX]; /* [i]: page i */
} hk_survey_superslab_t;

/* A large block, or a free extent. */
typedef struct {
  uintptr_t start;
  size_t bytes;
  size_t resident_bytes;
  bool is_free;
  bool is_ahead; /* pages may be resident that the program has not written */
} hk_survey_large_t;

/* Either function may be NULL. The survey then does not look which of its pages are resident. */
typedef struct {
  void *context;
  void (*superslab)(void *context, const hk_survey_superslab_t *superslab);
  void (*large)(void *context, const hk_survey_large_t *large);
} hk_survey_visitor_t;

/* Shows all superslabs, large blocks and free extents to the visitor, in the order of addresses. Uses some KiB of
 * stack. Unless `is_thorough`, it skips pages of descriptors that are not resident, and returns false when it has
 * missed memory because they were swapped out. A thorough survey takes longer and returns true. */
bool hk_survey(const hk_survey_visitor_t *visitor, bool is_thorough);

/* Returns the resident bytes of `bytes` from `offset` on. Counts whole pages only. */
size_t hk_survey_resident(const hk_survey_superslab_t *superslab, size_t offset, size_t bytes);

/* Returns the number of the slab that the head of slab `i` is; HK_SUPERSLAB_SLABS where the copy has no such one. */
unsigned hk_survey_head_of(const hk_survey_superslab_t *superslab, unsigned i);

/* Copies a record of the allocator, which is never unmapped. `bytes` is a multiple of a word. */
void hk_survey_copy_record(void *to, const void *from, size_t bytes);

#endif /* HK_INSPECT_SURVEY_H */
