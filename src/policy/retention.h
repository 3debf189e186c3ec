/* policy/retention.h - L2. How much dirty memory, resident and free, may stay for the next requests. The head of
 * retention.c has the formula. Numbers in, numbers out: the caller brings the clock and holds the lock.
 *
 * Terms of the formula: the memory that the learned time-outs keep (policy/learn.h), fragmentation slack
 * (policy/slack.h), credit for refaults where no purge thread runs (policy/low_water.h), and the room beside a
 * memory limit (policy/pressure.h). As the process's peak rises, less stays (policy/peak.h).
 */
#ifndef HK_POLICY_RETENTION_H
#define HK_POLICY_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/panic.h"
#include "policy/learn.h"
#include "policy/low_water.h"
#include "policy/pressure.h"
#include "policy/price.h"
#include "policy/refault.h"
#include "policy/slack.h"

HK_C_BEGIN

/* Why memory is purged. */
typedef enum {
  hk_purge_too_much,
  hk_purge_too_old,   /* the limit is a share of all dirty memory: the purge meets it as nearly as it can */
  hk_purge_at_peak,   /* the process's peak rises (policy/peak.h): lazily purged memory counts as dirty */
  hk_purge_limited,   /* a memory limit is near: lazily purged memory counts as dirty */
  hk_purge_requested, /* a caller requested it: lazily purged memory counts as dirty */
} hk_purge_cause_t;

/* Chosen: below twice the balanced price, dirty memory up to this part of the memory in use may stay at any age. */
#define HK_RETENTION_SHARE 12

/* Returns HK_RETENTION_SHARE at a price, multiplied by the whole number of times that it exceeds the balanced one. */
HK_INLINE size_t hk_retention_share(uint64_t ns_per_mib_second) {
  return HK_RETENTION_SHARE * hk_price_times_balanced(ns_per_mib_second);
}

/* Terms that the price of memory determines. */
typedef struct {
  uint64_t window_ms; /* the break-even time, but 0.1 s at the least and 20 s at the most */
  size_t share;       /* hk_retention_share */
  size_t slack_share; /* fragmentation slack is at most this part of the recent peak */
  /* Memory is cheap: credit is unlimited without a purge thread, too. */
  bool has_unlimited_credit;
} hk_retention_terms_t;

/* Returns the terms at a price. */
hk_retention_terms_t hk_retention_terms(const hk_price_t *price);

/* All zero before hk_retention_set_price. One owner, which holds a lock. */
typedef struct {
  hk_retention_terms_t terms;
  hk_learn_t learn;
  hk_slack_t slack;
  hk_low_water_t low_water;
  hk_pressure_t pressure;
  hk_refault_t refault;
} hk_retention_t;

/* The memory at one moment. */
typedef struct {
  uint64_t now_ms; /* on any clock that runs forward; a step back counts as none */
  size_t dirty_bytes;
  size_t in_use_bytes;
  size_t lazy_bytes;         /* purged lazily, and perhaps resident */
  size_t apart_bytes;        /* free and in no other sum (space/apart.h); they count near a memory limit alone */
  size_t retain_bytes;       /* the option: dirty memory that may stay of any age; 0: no time-out, no slack */
  size_t memory_limit_bytes; /* the option; 0: none */
  bool has_purge_thread;
  bool is_quiet; /* the purge thread visits, and the program is quiet */
} hk_retention_view_t;

typedef struct {
  size_t bytes;           /* dirty memory above this is to be purged; hk_purge_limited: lazily purged memory counts */
  size_t unlimited_bytes; /* the same without a memory limit */
  hk_purge_cause_t cause; /* of a purge above `bytes` */
} hk_retention_limit_t;

/* Returns how much dirty memory may stay. */
hk_retention_limit_t hk_retention_limit(const hk_retention_t *retention, const hk_retention_view_t *view);

/* Returns the dirty bytes that may stay in any program that is not quiet, far from a memory limit. */
size_t hk_retention_floor(const hk_retention_t *retention, const hk_retention_view_t *view);

/* Returns the dirty bytes that may stay in a quiet program, far from a memory limit. */
size_t hk_retention_quiet_bytes(const hk_retention_view_t *view);

/* Returns the dirty bytes that stay in any case as the process's peak rises (policy/peak.h). */
size_t hk_retention_peak_bytes(const hk_retention_view_t *view);

/* Sets the price of memory, at the start or later. Without effect when the price is not valid (hk_price_init).
 * `is_fixed`: nothing is learned. */
void hk_retention_set_price(hk_retention_t *retention, uint64_t now_ms, uint64_t ns_per_mib_second, bool is_fixed);

/* Sets the costs that were measured (hk_learn_set_costs). Call it after hk_retention_set_price. */
void hk_retention_set_costs(hk_retention_t *retention, uint64_t now_ms, uint64_t purge_ns, uint64_t fault_ns);

/* Notes a change. Call it after each change of the dirty memory or the memory in use. */
void hk_retention_note_change(hk_retention_t *retention, const hk_retention_view_t *view);

/* Notes a visit of the purge thread, which changes neither. */
void hk_retention_note_visit(hk_retention_t *retention, const hk_retention_view_t *view);

/* Notes that `bytes` of dirty memory are being purged. */
void hk_retention_note_purged(hk_retention_t *retention, const hk_retention_view_t *view, hk_purge_cause_t cause,
                              size_t bytes);

/* Notes that `bytes` that are not resident are about to be touched. Returns how many of them were purged less than a
 * window ago. */
size_t hk_retention_note_touched(hk_retention_t *retention, const hk_retention_view_t *view, size_t bytes);

/* Drops credit, low-water marks and purged bytes, as at the start: a caller has requested a purge of all dirty
 * memory. */
void hk_retention_forget(hk_retention_t *retention);

/* Returns the memory limit in force: the lower one of the option's and the system's at the last look; 0: none. */
size_t hk_retention_memory_limit(const hk_retention_t *retention, size_t option_bytes);

/* Returns the same memory as the view that policy/pressure.h takes. */
hk_pressure_view_t hk_retention_pressure_view(const hk_retention_view_t *view);

#if HK_DEBUG
/* Runs hk_slack_check and hk_level_check. */
void hk_retention_check(const hk_retention_t *retention);
#endif

/* Returns whether hk_retention_set_price has set this price. False, too, when a thread was inside that call as the
 * process forked: the terms are set last. */
HK_INLINE bool hk_retention_has_price(const hk_retention_t *retention, uint64_t ns_per_mib_second) {
  return retention->learn.price.ns_per_mib_second == ns_per_mib_second && retention->terms.share != 0;
}

HK_C_END

#endif /* HK_POLICY_RETENTION_H */
