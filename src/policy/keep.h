/* policy/keep.h - L2. How much idle memory stays. Numbers in, numbers out: no clock, no lock, no state but its
 * caller's.
 *
 * The limit has a base, which is what the user allows or a part of what is in use, and on top of it what was *earned*
 * by regret: memory that was given back and wanted again soon after was given back too early, and from then on twice as much
 * more may stay: where some of it is wanted again, more will be. What then lies idle through a whole window was not needed, and is
 * earned no longer. On top of the base no more is kept than brings all there is to the most that was in use of late, and a part of
 * that more: what is idle beyond has the wrong size or place, and has been replaced already. And what was earned counts for less, down
 * to nothing, where the program has freed more than it did before it took memory again (policy/low_water.h): nothing says that it will this
 * time.
 *
 * So a program that takes and frees the same amount again and again within a window pays for it once at the most, and one that frees
 * all it has and goes on without it, or does nothing more, keeps the base.
 */
#ifndef HK_POLICY_KEEP_H
#define HK_POLICY_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/panic.h"
#include "policy/low_water.h"
#include "policy/price.h"

HK_C_BEGIN

/* Of a window: how finely it is told apart when something was given back. */
#define HK_KEEP_PARTS 8

/* How much memory is worth, as numbers of this file's (policy/price.h says what follows from the price). */
typedef struct {
  uint64_t window_ms; /* what is wanted again after less should have stayed, what is idle for longer should not */
  size_t share;       /* idle memory up to this part of what is in use may stay, whatever the option says */
  size_t slack_share; /* by this part of what was in use of late all there is may exceed it */
  /* What becomes idle is earned until it has been so for a window, not only when it was regretted, and counts however deep the program
   * falls. */
  bool is_trusting;
} hk_keep_terms_t;

/* The window is the break-even time. Chosen: but 0.1 s at the least and 20 s at the most; and a twelfth, or less where
 * memory is dearer than at the balanced price. Free memory does not always have the size that is wanted: half of the peak is
 * allowed for that. Where it is cheaper than at the balanced price as much again is, and what becomes idle is trusted: what a program
 * that does nothing more then keeps has been paid for by its price. */
hk_keep_terms_t hk_keep_terms(const hk_price_t *price);

/* What there is at one moment. */
typedef struct {
  uint64_t now_ms; /* on any clock that runs forward; a step back counts as none */
  size_t idle_bytes;
  size_t in_use_bytes;
  size_t retain_bytes; /* the option: 0 says that nothing is to be earned */
  hk_keep_terms_t terms;
} hk_keep_view_t;

/* All zero to begin with. Whoever owns it calls hk_keep_look after each change of what is idle or in use: the window is
 * told from that.
 *
 * Invariant after each look: least_excess_bytes <= excess_bytes, in_use_bytes <= peak_bytes. */
typedef struct {
  uint64_t window_start_ms;
  size_t earned_bytes;
  size_t excess_bytes;       /* idle above the base, when it was looked at last */
  size_t least_excess_bytes; /* the lowest that this was since the window began */
  /* What was given back and not wanted again yet: in this part of a window, and in those before it. */
  size_t given_back_bytes[HK_KEEP_PARTS];
  uint64_t part_start_ms;   /* when this part began */
  size_t in_use_bytes;      /* when it was looked at last */
  size_t peak_bytes;        /* the most that was in use in this window */
  size_t peak_before_bytes; /* in the window before */
  hk_low_water_t low_water;
} hk_keep_t;

/* Takes note of what there is now, and ends the window when it is over. */
void hk_keep_look(hk_keep_t *keep, const hk_keep_view_t *view);

/* How much may be idle in any case. */
size_t hk_keep_base(const hk_keep_view_t *view);

/* By how much all there is may exceed what was in use of late: free memory does not always have the size that is wanted. */
size_t hk_keep_slack(const hk_keep_t *keep, const hk_keep_view_t *view);

/* How much may be idle. */
size_t hk_keep_limit(const hk_keep_t *keep, const hk_keep_view_t *view);

/* So much was given back because it was above the limit. */
void hk_keep_note_given_back(hk_keep_t *keep, const hk_keep_view_t *view, size_t bytes);

/* So much is about to be faulted in that was not resident. How much of it is regretted: had been given back less than
 * a window ago (or an eighth of it less: parts are told apart no finer). Twice that is earned now. */
size_t hk_keep_note_wanted(hk_keep_t *keep, const hk_keep_view_t *view, size_t bytes);

/* Forgets what was earned, and what may be regretted: somebody asked for everything to be given back. */
void hk_keep_forget(hk_keep_t *keep);

#if HK_DEBUG
/* Panics with the sentence that does not hold. */
void hk_keep_check(const hk_keep_t *keep);
#endif

HK_C_END

#endif /* HK_POLICY_KEEP_H */
