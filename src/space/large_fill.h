/* space/large_fill.h - L3. Which large blocks the program has filled, and how much memory is resident ahead of it
 * (policy/ahead.h).
 *
 * A block whose memory was not resident when it was made is open until a look finds it filled. The last few open blocks
 * are looked at when the next one is made. The first `ahead_slabs` slabs of an open block are ahead of the program:
 * made resident, or advised to become huge pages. Their pages are resident in any case, so the look is at the contents:
 * a page with a byte that is not 0 counts as written.
 *
 * Functions that end in _locked require hk_lock_space. The others take it.
 */
#ifndef HK_SPACE_LARGE_FILL_H
#define HK_SPACE_LARGE_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "space/slab.h"

/* Chosen: the open blocks that are looked at, and the looks before a new block is made. */
#define HK_LARGE_FILL_BLOCKS 8
#define HK_LARGE_FILL_LOOKS 2

/* Returns the bytes at a large block's start that are ahead. A caller without the lock gets a recent answer. */
HK_INLINE size_t hk_large_fill_ahead_bytes(const hk_slab_t *slab) { return slab->ahead_slabs * HK_SLAB_BYTES; }

/* Enters a new block of the caller, whose memory is not resident. The sums of memory in use do not count it yet. */
void hk_large_fill_begin_locked(hk_slab_t *slab, uintptr_t start, size_t bytes);

/* Notes that a block changes its size; `new_bytes` 0: it ends. A block that grows is open again. If all of it was
 * advised to be huge, all of it is ahead. */
void hk_large_fill_change_locked(hk_slab_t *slab, uintptr_t start, size_t old_bytes, size_t new_bytes);

/* Notes that a block's pages become those of `target`, a new open block, which takes over the block's age. */
void hk_large_fill_move_locked(hk_slab_t *slab, size_t old_bytes, hk_slab_t *target, size_t new_bytes);

/* Notes that an open block was found filled. */
void hk_large_fill_end_locked(hk_slab_t *slab);

/* Returns how many bytes more may be ahead, if `filled` blocks in a row were filled. */
size_t hk_large_fill_room_locked(unsigned filled);

/* Notes that the first `ahead_bytes` of an open block are ahead: whole slabs, or the whole block. */
void hk_large_fill_put_ahead_locked(hk_slab_t *slab, size_t ahead_bytes);

/* Returns a page of part `i` of a block, chosen without a pattern: programs that leave pages out mostly follow a rule.
 * Requires a part of at least a page. */
uintptr_t hk_large_fill_page(uintptr_t part_start, size_t part_bytes, unsigned i);

/* Divides a block into HK_THP_PROBES parts, and looks at a page of each. Returns how many of these pages the program
 * has written. */
unsigned hk_large_fill_probe(uintptr_t start, size_t bytes, size_t ahead_bytes);

/* Returns whether hk_large_fill_probe would find all pages written. Stops at the first that is not: each page takes a
 * system call. */
bool hk_large_fill_is_filled(uintptr_t start, size_t bytes, size_t ahead_bytes);

/* An open block that was found filled. */
typedef struct {
  size_t bytes;
  uint32_t born_ms;
} hk_large_filled_t;

/* Looks at the next open block. Returns whether it was filled, and then sets `*filled`. */
bool hk_large_fill_look(hk_large_filled_t *filled);

#endif /* HK_SPACE_LARGE_FILL_H */
