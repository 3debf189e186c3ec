/* space/run.h - L3. Blocks above 32 KiB, up to 1 MiB: whole slabs in a row inside a superslab. A run may grow in place
 * up to its superslab's end. */
#ifndef HK_SPACE_RUN_H
#define HK_SPACE_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "space/slab.h"
#include "space/superslab_index.h"

/* Returns a run of at least `bytes`, at most HK_RUN_MAX_BYTES; NULL when the system refuses. `alignment` is a power of
 * two up to HK_SUPERSLAB_BYTES; every run has 64 KiB. `*is_zero` says whether the memory is known to be zero. */
void *hk_run_alloc(size_t bytes, size_t alignment, bool *is_zero);

/* Returns a run in dirty memory with as much free room behind it as there is; NULL when there is none. For a block that
 * grows: it will likely grow again. Requires at most HK_RUN_MAX_BYTES. */
void *hk_run_alloc_roomy(size_t bytes);

/* Ends the run as a block and keeps its slabs for the caller. The first one is free; the others stay its tails, so that
 * a run that is soon a block again writes to one descriptor alone. Returns false when the run is free already: another
 * thread was first. */
bool hk_run_close(hk_slab_t *head);

/* Retires the tails of a closed run. It may be any row of free slabs: others have none. */
void hk_run_retire_tails(hk_slab_t *head);

/* Returns the slabs of a closed run to the superslab. */
void hk_run_release(hk_slab_t *head);

/* Makes a closed run a block again as it was, by its state alone. Requires that it has not been retired or split since
 * hk_run_close, and a build that is not hardened. Returns the block. */
HK_INLINE void *hk_run_reopen_closed(hk_slab_t *head) {
  hk_slab_set_state(head, hk_slab_run);
  return (void *)hk_slab_start(head);
}

/* Makes a closed run, or another row of head->slab_count free slabs, a block of that many. Returns the block. */
void *hk_run_reopen(hk_slab_t *head);

/* Where a heap knows the run's resident pages (heap/sparse_run.h), it does so no longer, and counts the run as gone.
 * For the thread that has the run, which may be any. */
void hk_run_forget_pages(hk_slab_t *head);

/* Closes and releases the run. Returns false when it is free already. */
bool hk_run_free(hk_slab_t *head);

/* Makes the run shorter or longer in place. Returns false when the slabs behind it are not free: the run is then
 * unchanged. */
bool hk_run_resize(hk_slab_t *head, size_t bytes);

#define HK_RUN_MAX_SLABS ((unsigned)(HK_RUN_MAX_BYTES / HK_SLAB_BYTES))

/* Returns the number of slabs of a run of `bytes`: 1 to HK_RUN_MAX_SLABS. */
HK_INLINE unsigned hk_run_slabs(size_t bytes) { return (unsigned)((bytes + HK_SLAB_BYTES - 1) / HK_SLAB_BYTES); }

/* Returns the usable bytes of a run of `bytes`. */
size_t hk_run_good_size(size_t bytes);

#endif /* HK_SPACE_RUN_H */
