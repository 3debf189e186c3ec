/* unwind/site.h - L6. Sites: the stacks that sampled blocks were allocated from, and what is counted of each. Any
 * thread uses all of it, nobody waits, and a site never goes away. */
#ifndef HK_UNWIND_SITE_H
#define HK_UNWIND_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

/* Of a longer stack the innermost frames. */
#define HK_SITE_FRAMES_MAX 64
/* The i-th counts blocks that lived for less than 2^i ms, and not for less than half of it; the last one all that
 * lived longer. */
#define HK_SITE_LIFETIMES 16

/* What `bytes` of such a block stand for, and whole blocks: rounded. */
HK_INLINE uint64_t hk_site_weighted(uint64_t bytes, uint64_t weight_q16) {
  return (uint64_t)(((unsigned __int128)bytes * weight_q16 + (1u << 15)) >> 16);
}
HK_INLINE uint64_t hk_site_rounded(uint64_t blocks_q16) { return (blocks_q16 + (1u << 15)) >> 16; }

/* Sums over samples, of allocations or of frees. Written by any thread. */
typedef struct {
  _Atomic(uint64_t) samples;
  _Atomic(uint64_t) objects_q16;
  _Atomic(uint64_t) requested_bytes; /* weighted, as the next */
  _Atomic(uint64_t) block_bytes;
} hk_site_sums_t;

/* How many blocks lived for how long, 16 bits after the point: a part of the buckets. Most sites' blocks live alike,
 * and need one. */
#define HK_SITE_LIVES_PARTS 4
#define HK_SITE_LIVES_EACH (HK_SITE_LIFETIMES / HK_SITE_LIVES_PARTS)
typedef struct {
  _Atomic(uint64_t) blocks_q16[HK_SITE_LIVES_EACH];
} hk_site_lives_t;

/* What was there when the profile was started last. */
typedef struct {
  hk_site_sums_t allocated;
  hk_site_lives_t lives[HK_SITE_LIVES_PARTS];
} hk_site_past_t;

/* Where a record lies in the sites' range. 0: there is none. */
typedef uint32_t hk_site_place_t;

/* Deep stacks are many, and most of what a stack has another one has too. So a site has a record of the frames in
 * which it differs from another one, its stem: the outermost `stem_frames` of its frames are the outermost ones of
 * that. It takes no room for what it does not need either; where there is none when it does, it goes without. What
 * comes before the sums is constant once the site can be found, but for `next_branch`, which is so once it is a
 * branch. */
struct hk_site {
  hk_site_place_t next;        /* of the same bucket */
  hk_site_place_t next_branch; /* of the same bucket of branches */
  hk_site_place_t stem;
  uint32_t hash;
  uint16_t frame_count;
  uint16_t stem_frames;                                /* all: the stack is the outer part of another one */
  _Atomic(hk_site_place_t) past;                       /* 0: it was not there yet */
  _Atomic(hk_site_place_t) lives[HK_SITE_LIVES_PARTS]; /* 0: no block of such an age was freed */
  uint64_t pinned_bytes;                               /* inspect/pinned.h */
  hk_site_sums_t allocated;
  hk_site_sums_t freed;
  uintptr_t own_frames[]; /* return addresses, the innermost first */
};

/* The site of a stack; never NULL: where there is no room, one that all others share. `frames` are return addresses,
 * the innermost first. */
hk_site_t *hk_site_of(const uintptr_t *frames, unsigned count);

/* Copies its `frame_count` frames, which are HK_SITE_FRAMES_MAX at most, the innermost first; says how many. */
unsigned hk_site_frames(const hk_site_t *site, uintptr_t *frames);

void hk_site_count_alloc(hk_site_t *site, const hk_sample_weight_t *weight);
/* Of a block that was counted with the same weight, and lived for so long. */
void hk_site_count_free(hk_site_t *site, const hk_sample_weight_t *weight, uint64_t lived_ms);

/* Each site once, in no order, the shared one last; NULL before the first and behind the last. Sites that are made
 * meanwhile may be missed. */
hk_site_t *hk_site_next(const hk_site_t *previous);
/* Whether it is the shared one, whose stacks nobody knows. */
bool hk_site_is_shared(const hk_site_t *site);

/* From now on what was allocated, and what lived for how long, is told from here on. What is in use stays what it
 * is. */
void hk_site_begin_all(void);

/* What is counted of a site, at about one moment: what was allocated since the profile was started last, and all
 * that is in use, which is never less than nothing. */
typedef struct {
  uint64_t objects;
  uint64_t requested_bytes;
  uint64_t block_bytes;
  uint64_t samples;
} hk_site_figures_t;
void hk_site_read(const hk_site_t *site, hk_site_figures_t *allocated, hk_site_figures_t *in_use);
/* How many blocks were freed since then that had lived for so long. */
uint64_t hk_site_lifetime(const hk_site_t *site, unsigned bucket);

HK_C_END

#endif /* HK_UNWIND_SITE_H */
