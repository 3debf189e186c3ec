/* space/huge.h - L3. Advises the system to use huge pages, where policy/thp_policy.h says that they pay.
 *
 * All of it is advice. It changes no contents, a refusal loses nothing, and advice that comes when the addresses belong
 * to another block does no harm. Advice for a part of a mapping divides the mapping. A piece that is small beside the
 * memory in use gets no advice, so the number of mappings stays bounded.
 */
#ifndef HK_SPACE_HUGE_H
#define HK_SPACE_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"
#include "space/superslab_index.h"

/* Chosen: a piece gets advice if it is at least 1/8,192 of the bytes in use. With pieces of 2 MiB that is 8,192
 * pieces in 16 GiB. */
#define HK_HUGE_PIECES 8192

/* Chosen: the least time between two looks at superslabs, the most records examined in a look, and the most huge pages
 * made in a look: by the purge thread, and by a thread that requests or frees memory. */
#define HK_HUGE_LOOK_MS ((uint64_t)1000)
#define HK_HUGE_LOOK_MAX 64
#define HK_HUGE_VISIT_MAX 4
#define HK_HUGE_SETTLE_MAX 1

/* These functions are called without hk_lock_space, and some of them take it. */

/* Notes a superslab that is about to be made at `start`. `is_new`: the addresses are newly mapped. Returns whether it
 * will be a huge page. */
bool hk_huge_note_new_superslab(uintptr_t start, bool is_new);

/* Notes the caller's new large block, which is not resident. `is_new`: its addresses are newly mapped. */
void hk_huge_note_new_block(hk_slab_t *slab, uintptr_t start, size_t bytes, bool is_new);

/* Notes that the block is about to grow. Forbids further huge pages in it, if the new part may not be ahead. */
void hk_huge_note_growing_block(hk_slab_t *slab, uintptr_t start, size_t old_bytes, size_t new_bytes);

/* Notes that the block grows into the free extent behind it, which gets the block's advice. */
void hk_huge_note_grown_block(const hk_slab_t *slab, uintptr_t end, size_t more_bytes);

/* Notes the end of a block that the caller has freed, before it becomes a free extent. */
void hk_huge_note_end_of_block(hk_slab_t *slab, uintptr_t start, size_t bytes);

/* Looks at some superslabs, if the last look was at least HK_HUGE_LOOK_MS ago. For the purge thread's visits. */
void hk_huge_visit(uint64_t now_ms);

/* Looks at some superslabs, in a thread that requests or frees memory, when hk_huge_is_due_locked says so. */
void hk_huge_look(uint64_t now_ms);

/* Forbids huge pages in a superslab that hk_huge_take_apart_locked was called for, after the purge. */
void hk_huge_forbid_again(uintptr_t superslab_start);

/* These functions require hk_lock_space. */

/* Returns whether a look is due; if so, the caller is to call hk_huge_look, without the lock. */
bool hk_huge_is_due_locked(uint64_t now_ms);

/* This function requires the lock of the superslab's shard. */

/* Notes that a part of a superslab is about to be purged, which ends its huge page. Returns whether
 * hk_huge_forbid_again is due. */
bool hk_huge_take_apart_locked(hk_superslab_t *superslab);

#endif /* HK_SPACE_HUGE_H */
