/* unwind/site.h - L6. Sites: the stacks that sampled blocks were allocated from. Any thread may call these functions,
 * no call waits, and a site is never removed. unwind/site_sums.h counts the blocks of each.
 *
 * Many stacks are deep, and most frames of a stack are also in another one. So a site's record has only the frames in
 * which it differs from another site, its stem: the outermost `stem_frames` frames of both are the same. The parts
 * `past` and `lives` are made when they are first needed. Where there is no room for a part, the site lacks it.
 *
 * A sampled block of a named heap or a tag has a site with that one's label. The stem of such a site is the site of the
 * same stack without a label.
 */
#ifndef HK_UNWIND_SITE_H
#define HK_UNWIND_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

/* Of a longer stack a site has only the innermost frames. */
#define HK_SITE_FRAMES_MAX 64
/* The buckets of lifetimes. Bucket 0 counts blocks that lived for less than 1 ms, bucket i those that lived for 2^(i-1)
 * to 2^i ms. The last bucket also counts all that lived longer. */
#define HK_SITE_LIFETIMES 16

/* Sums over samples, of allocations or of frees. Any thread adds. Numbers named q16 have 16 fractional bits. */
typedef struct {
  _Atomic(uint64_t) samples;
  _Atomic(uint64_t) objects_q16;
  _Atomic(uint64_t) requested_bytes; /* weighted, as the next field */
  _Atomic(uint64_t) block_bytes;
} hk_site_sums_t;

/* The numbers of blocks in some of the buckets: a quarter of them. Most sites need one such part, because their blocks
 * live similarly long. */
#define HK_SITE_LIVES_PARTS 4
#define HK_SITE_LIVES_EACH (HK_SITE_LIFETIMES / HK_SITE_LIVES_PARTS)
typedef struct {
  _Atomic(uint64_t) blocks_q16[HK_SITE_LIVES_EACH];
} hk_site_lives_t;

/* The sums at the last start of the profile. */
typedef struct {
  hk_site_sums_t allocated;
  hk_site_lives_t lives[HK_SITE_LIVES_PARTS];
} hk_site_past_t;

/* A record's offset in the sites' range. 0: there is none. */
typedef uint32_t hk_site_place_t;

/* The fields up to `stem_frames`, and `own_frames`, are constant once the site can be found. `next_branch` is
 * constant once the site is a branch. */
struct hk_site {
  hk_site_place_t next;        /* in the same bucket */
  hk_site_place_t next_branch; /* in the same bucket of branches */
  hk_site_place_t stem;
  hk_site_place_t label; /* 0: none */
  uint32_t hash;
  uint16_t frame_count;
  uint16_t stem_frames; /* equal to `frame_count`: the stack is the outer part of the stem's */
  /* 0: the site is younger than the last start of the profile, or there was no room */
  _Atomic(hk_site_place_t) past;
  /* 0: no block of such a lifetime was freed, or there was no room */
  _Atomic(hk_site_place_t) lives[HK_SITE_LIVES_PARTS];
  uint64_t pinned_bytes; /* written by inspect/pinned.h */
  hk_site_sums_t allocated;
  hk_site_sums_t freed;
  uintptr_t own_frames[]; /* return addresses, the innermost first */
};

/* Returns the site of a stack, and makes it if needed. `frames` are return addresses, the innermost first. Never
 * NULL: all stacks without room for a site share one. */
hk_site_t *hk_site_of(const uintptr_t *frames, unsigned count);

/* A label of sites: the named heap or tag of their blocks. It has room for a name of 63 bytes, as hk_format_name writes
 * it. */
#define HK_SITE_LABEL_BYTES 256
typedef struct {
  hk_site_place_t next; /* in the list of all labels */
  uint16_t number;      /* from 0 on */
  bool is_tag;
  char name[HK_SITE_LABEL_BYTES];
} hk_site_label_t;
/* Chosen: a label is found by a linear search. All names beyond this number share the label "others". */
#define HK_SITE_LABELS_MAX 128

/* Returns the site of the same stack that has the label, and makes both if needed. Returns the site itself when there
 * is no room. */
hk_site_t *hk_site_with_label(hk_site_t *site, const char *name, bool is_tag);

/* Returns the site's label; NULL: none. */
const hk_site_label_t *hk_site_label(const hk_site_t *site);

/* Copies the site's frames, the innermost first. Returns their number, HK_SITE_FRAMES_MAX at most. */
unsigned hk_site_frames(const hk_site_t *site, uintptr_t *frames);

/* Returns the site that follows `previous`; the first one for NULL, and NULL behind the last. Each site comes once,
 * in no order, the shared one last and only if it has samples. Sites that are made meanwhile may be missed. */
hk_site_t *hk_site_next(const hk_site_t *previous);
/* Returns whether the site is the shared one, whose stacks are unknown. */
bool hk_site_is_shared(const hk_site_t *site);

/* Returns the part of a site that `*place`, one of its fields, names. NULL: the site does not have it. */
void *hk_site_find_part(const _Atomic(hk_site_place_t) *place);
/* Also makes the part if needed, of zeroes; NULL when there is no room. Of two threads that make it at once, the second
 * one leaves its memory unused. */
void *hk_site_get_part(_Atomic(hk_site_place_t) *place, size_t bytes);

HK_C_END

#endif /* HK_UNWIND_SITE_H */
