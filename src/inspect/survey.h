/* inspect/survey.h - L8. Looks at all the memory that we have, while its owners use it.
 *
 * Descriptors are plain fields that their owners write. So it is the system that copies them: such a copy may be of
 * different moments, but it is no data race, and it does not fail where memory has gone. No lock is taken, nothing is
 * allocated, nobody waits. What is resident the system is asked for.
 */
#ifndef HK_INSPECT_SURVEY_H
#define HK_INSPECT_SURVEY_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"
#include "space/superslab_index.h"

/* Pages are 4 KiB at least. */
#define HK_SURVEY_PAGES_MAX (HK_SUPERSLAB_BYTES / (4 * HK_KIB))

/* A superslab as it was. */
typedef struct {
  alignas(
      HK_CACHE_LINE_BYTES) hk_slab_t slab[HK_SUPERSLAB_SLABS]; /* copies: no pointer into them is a slab's address */
  hk_slab_t *first;                                            /* where they were copied from */
  hk_superslab_t record;
  uintptr_t start;
  unsigned char is_resident[HK_SURVEY_PAGES_MAX]; /* [i]: page i */
} hk_survey_superslab_t;

/* A large block, or a free extent of such. */
typedef struct {
  uintptr_t start;
  size_t bytes;
  size_t resident_bytes;
  bool is_free;
} hk_survey_large_t;

/* Either may be NULL: it is then not asked what is resident. */
typedef struct {
  void *context;
  void (*superslab)(void *context, const hk_survey_superslab_t *superslab);
  void (*large)(void *context, const hk_survey_large_t *large);
} hk_survey_visitor_t;

/* Shows everything to the visitor, by address. It needs some KiB of stack. Descriptors that are not resident are passed over,
 * unless it `is_thorough`, which takes longer: false when that has left something out, because they were swapped out. */
bool hk_survey(const hk_survey_visitor_t *visitor, bool is_thorough);

/* What of `bytes` from `offset` on is resident. Parts of pages do not count. */
size_t hk_survey_resident(const hk_survey_superslab_t *superslab, size_t offset, size_t bytes);

/* Copies a record of ours, which stays mapped for good, of whole words. */
void hk_survey_copy_record(void *to, const void *from, size_t bytes);

#endif /* HK_INSPECT_SURVEY_H */
