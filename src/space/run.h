/* space/run.h - L3. Blocks of more than 32 KiB, up to 1 MiB: whole slabs in a row inside a superslab. */
#ifndef HK_SPACE_RUN_H
#define HK_SPACE_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "space/slab.h"

/* `bytes` is at most HK_RUN_MAX_BYTES, `alignment` a power of two up to HK_SUPERSLAB_BYTES (64 KiB come by
 * themselves). `*zero` says whether the memory is known to be zero. NULL when the system refuses. */
void *hk_run_alloc(size_t bytes, size_t alignment, bool *zero);

/* Makes it nobody's, but keeps its slabs. False when the run is free already: another thread was first. */
bool hk_run_close(hk_slab_t *head);

/* Gives the slabs of a closed run back. */
void hk_run_release(hk_slab_t *head);

/* Makes a closed run a block again, of the same size. */
void *hk_run_reopen(hk_slab_t *head);

/* hk_run_close and hk_run_release. */
bool hk_run_free(hk_slab_t *head);

/* Makes the run shorter or longer where it stands. False when the slabs behind it are in use: nothing has changed. */
bool hk_run_resize(hk_slab_t *head, size_t bytes);

#define HK_RUN_MAX_SLABS ((unsigned)(HK_RUN_MAX_BYTES / HK_SLAB_BYTES))

/* How many slabs a run of `bytes` has: 1 to HK_RUN_MAX_SLABS. */
HK_INLINE unsigned hk_run_slabs(size_t bytes) { return (unsigned)((bytes + HK_SLAB_BYTES - 1) / HK_SLAB_BYTES); }

/* What a run of `bytes` lets the program use. */
size_t hk_run_good_size(size_t bytes);

#endif /* HK_SPACE_RUN_H */
