/* policy/price.h - L2. The cost of dirty memory, and the candidates: the time-outs that the learner judges by that
 * cost. Numbers in, numbers out.
 *
 * The price says how many ns of CPU time a MiB-second of resident memory is worth. Keeping dirty memory costs bytes
 * x time x price. Purging it costs system calls, and page faults when it is needed again. Both are in proportion to
 * the bytes. Divided by bytes and price, a cost is a time: keeping the memory for that time costs as much. So all
 * costs are counted in KiB x ms, and the price enters through `purge_ms` and `fault_ms` alone.
 *
 * A candidate purges memory that has been dirty for longer than its time-out. The candidates lie around the break-even
 * time-out, at which keeping has cost as much as purging and faulting in again. The break-even time-out never pays more
 * than twice the cost of the best decisions with knowledge of the future. A new program begins with it, 1.8 s at the
 * balanced price; policy/learn.h chooses later.
 */
#ifndef HK_POLICY_PRICE_H
#define HK_POLICY_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* ---- Measured: CPU time for a MiB of 4 KiB pages, by bench/learn_traces/purge_cost.c, in pieces of 64 KiB to 16
 * MiB, on a virtual machine with two cores and Linux 6.18. Memory that is not needed again costs the first alone. */
#define HK_PRICE_PURGE_NS UINT64_C(90000)
#define HK_PRICE_FAULT_NS UINT64_C(360000)

/* ---- Chosen: ns of CPU time for a MiB-second. At the prices of rented memory and processors it is about 107,000
 * (docs/learning.md). The balanced price is above that, so that an idle program has purged its dirty memory after
 * two seconds. */
#define HK_PRICE_FAST UINT64_C(25000)
#define HK_PRICE_BALANCED UINT64_C(250000)
#define HK_PRICE_LEAN UINT64_C(2500000)

/* The prices with a name. Requires a definition of HK_PRICE_MODE(name, ns_per_mib_second). */
#define HK_PRICE_MODES                       \
  HK_PRICE_MODE(fast, HK_PRICE_FAST)         \
  HK_PRICE_MODE(balanced, HK_PRICE_BALANCED) \
  HK_PRICE_MODE(lean, HK_PRICE_LEAN)

/* Below the least price the break-even time is longer than an hour. At the highest price it is 17 ms, which is a few
 * ticks of the kernel's timer. */
#define HK_PRICE_MIN UINT64_C(100)
#define HK_PRICE_MAX UINT64_C(25000000)

/* Chosen: the time-outs that the learner judges. docs/learning.md lists them. */
#define HK_PRICE_CANDIDATES 12u
#define HK_PRICE_BREAK_EVEN 7u /* the candidate with the break-even time-out */
#define HK_PRICE_NEVER UINT64_MAX

typedef struct {
  uint64_t ns_per_mib_second;
  /* CPU time for a MiB: HK_PRICE_PURGE_NS and HK_PRICE_FAULT_NS, or what this process measured (policy/cost.h). */
  uint64_t purge_ns;
  uint64_t fault_ns;
  uint64_t purge_ms;                        /* purging costs as much as keeping for this time */
  uint64_t fault_ms;                        /* faulting in again costs as much as keeping for this time */
  uint64_t timeout_ms[HK_PRICE_CANDIDATES]; /* rising, from 0 to never */
} hk_price_t;

/* Returns false and changes nothing when the price is outside HK_PRICE_MIN ... HK_PRICE_MAX. */
bool hk_price_init(hk_price_t *price, uint64_t ns_per_mib_second);

/* Sets the CPU time that purging a MiB and faulting it in again take here. The candidates stay the same parts of the
 * break-even time. */
void hk_price_set_costs(hk_price_t *price, uint64_t purge_ns, uint64_t fault_ns);

/* Returns whether the price is below the balanced one: time then matters more than memory. */
HK_INLINE bool hk_price_is_cheap(uint64_t ns_per_mib_second) { return ns_per_mib_second < HK_PRICE_BALANCED; }

/* Returns how many times the balanced price this one is, rounded down; at least 1. */
HK_INLINE uint64_t hk_price_times_balanced(uint64_t ns_per_mib_second) {
  return hk_price_is_cheap(ns_per_mib_second) ? 1 : ns_per_mib_second / HK_PRICE_BALANCED;
}

/* Returns the time for which keeping costs as much as purging and faulting in again. */
HK_INLINE uint64_t hk_price_break_even_ms(const hk_price_t *price) { return price->purge_ms + price->fault_ms; }

/* Gaps by length: [i] holds those longer than the time-out of candidate i - 1 and no longer than that of candidate
 * i. Each candidate either keeps or purges all gaps of one entry, so their sums suffice. */
typedef struct {
  uint64_t kib[HK_PRICE_CANDIDATES];
  uint64_t kib_ms[HK_PRICE_CANDIDATES]; /* all sums saturate */
} hk_price_gaps_t;

/* Counts a gap of `gap_ms` of `bytes`, which count as whole KiB. */
void hk_price_add_gap(const hk_price_t *price, hk_price_gaps_t *gaps, size_t bytes, uint64_t gap_ms);

/* Returns the cost of these gaps for a candidate, in KiB x ms. `are_open`: the gaps have not ended, and no memory
 * was faulted in again. */
uint64_t hk_price_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, unsigned candidate, bool are_open);

/* Returns what purging now would cost a candidate for the open gaps that it still keeps. */
uint64_t hk_price_purge_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, unsigned candidate);

/* Returns the least cost of these gaps with knowledge of their lengths. For open gaps it may be too high: those of
 * one entry are all kept or all purged. */
uint64_t hk_price_least_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, bool are_open);

/* Returns a cost in KiB x ms as it would be where purging a MiB and faulting it in again take `to_ns` together, not
 * `from_ns`: the same part of what purging costs. */
uint64_t hk_price_rescaled(uint64_t cost, uint64_t from_ns, uint64_t to_ns);

/* Converts KiB x ms to ns of CPU time. */
uint64_t hk_price_ns(const hk_price_t *price, uint64_t kib_ms);

HK_C_END

#endif /* HK_POLICY_PRICE_H */
