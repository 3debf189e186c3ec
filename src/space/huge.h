/* space/huge.h - L3. Asks the system for huge pages, where policy/thp_policy.h says that they pay.
 *
 * All of it is advice: it changes no contents, what is refused loses nothing, and where it comes too late, because the
 * addresses are another's by then, it does no harm. A mapping that is asked for in part becomes several: nothing is asked
 * for a piece that is small beside all that is in use, so their number stays bounded.
 */
#ifndef HK_SPACE_HUGE_H
#define HK_SPACE_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"
#include "space/superslab_index.h"

/* Chosen: of all that is in use a piece has to be this part. With 2 MiB at the least that is 8,192 pieces in 16 GiB. */
#define HK_HUGE_PIECES 8192

/* Chosen: how often superslabs are looked at, how many in a look, and for how many of them at the most a huge page is made
 * then: by a thread that has nothing else to do, and by one that is asked for memory. */
#define HK_HUGE_LOOK_MS ((uint64_t)1000)
#define HK_HUGE_LOOK_MAX 64
#define HK_HUGE_VISIT_MAX 4
#define HK_HUGE_SETTLE_MAX 1

/* What follows is called without hk_lock_space, and some of it takes it. */

/* A superslab is to be made here. `is_new`: nobody has touched these addresses. Whether it will be a huge page. */
bool hk_huge_note_new_superslab(uintptr_t start, bool is_new);

/* The caller's new large block, which is not resident. */
void hk_huge_note_new_block(hk_slab_t *slab, uintptr_t start, size_t bytes);

/* The block grows to the free extent behind it: what is known of the one goes for the other. */
void hk_huge_note_grown_block(const hk_slab_t *slab, uintptr_t end, size_t more_bytes);

/* The block, nobody's by now, is about to become a free extent. */
void hk_huge_note_end_of_block(const hk_slab_t *slab, uintptr_t start, size_t bytes);

/* Its pages are another block's from now on. */
void hk_huge_note_moved_block(const hk_slab_t *slab, hk_slab_t *target);

/* Looks at some superslabs, if the last look is HK_HUGE_LOOK_MS ago: to be called about that often by a thread that has
 * nothing else to do. */
void hk_huge_visit(uint64_t now_ms);

/* A look by a thread that was asked for memory or gives some back, when hk_huge_is_due_locked says so. */
void hk_huge_look(uint64_t now_ms);

/* Forbids them again in a superslab that was taken apart, after memory of it was given back. */
void hk_huge_forbid_again(uintptr_t superslab_start);

/* What follows needs hk_lock_space. */

/* Whether it is time for hk_huge_look; if so, the caller is the one to do it. */
bool hk_huge_is_due_locked(uint64_t now_ms);

/* Memory of a superslab is about to be given back: it is no huge page any more. Whether hk_huge_forbid_again is to be called. */
bool hk_huge_take_apart_locked(hk_superslab_t *superslab);

#endif /* HK_SPACE_HUGE_H */
