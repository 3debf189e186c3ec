/* policy/price.h - L2. What idle memory costs, and the strategies that are judged by it. Numbers in, numbers out.
 *
 * The price says how many ns of CPU a MiB-second of resident memory is worth. Keeping idle memory costs bytes x time x
 * price; giving it back costs system calls, and page faults when it is wanted again. Both are in proportion to the
 * bytes, so dividing by bytes and price leaves times: giving back costs as much as keeping for so long. All costs are
 * counted so, in KiB x ms, and the price enters by two times alone.
 *
 * A strategy is a time-out: what has been idle for longer is given back. The strategies lie around the break-even
 * time-out, at which keeping has cost as much as giving back and wanting again will: it never pays more than twice what
 * one would who knows the future.
 */
#ifndef HK_POLICY_PRICE_H
#define HK_POLICY_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* ---- Measured: CPU time for a MiB of 4 KiB pages, by bench/learn_traces/purge_cost.c, in pieces of 64 KiB to 16 MiB, on
 * a virtual machine with two cores and Linux 6.18. Memory that nobody wants again costs the first alone. */
#define HK_PRICE_GIVE_NS UINT64_C(90000)
#define HK_PRICE_WANT_NS UINT64_C(360000)

/* ---- Chosen: ns of CPU for a MiB-second. Who rents memory and processors by the hour pays about 107,000
 * (docs/learning.md); balanced is above that, so that an idle program has given back what it had after two seconds. */
#define HK_PRICE_FAST UINT64_C(25000)
#define HK_PRICE_BALANCED UINT64_C(250000)
#define HK_PRICE_LEAN UINT64_C(2500000)

/* Those that have a name, for who has defined HK_PRICE_MODE(name, ns_per_mib_second). */
#define HK_PRICE_MODES                       \
  HK_PRICE_MODE(fast, HK_PRICE_FAST)         \
  HK_PRICE_MODE(balanced, HK_PRICE_BALANCED) \
  HK_PRICE_MODE(lean, HK_PRICE_LEAN)

/* Below the least even an hour of idling would be too short to give back; above the most a tick of the kernel's timer is
 * longer than all time-outs. */
#define HK_PRICE_LEAST UINT64_C(100)
#define HK_PRICE_MOST UINT64_C(25000000)

#define HK_PRICE_CANDIDATES 12u
#define HK_PRICE_BREAK_EVEN 7u /* which candidate it is */
#define HK_PRICE_NEVER UINT64_MAX

typedef struct {
  uint64_t ns_per_mib_second;
  uint64_t give_ms;                         /* giving back costs as much as keeping for so long */
  uint64_t want_ms;                         /* and so does wanting it again */
  uint64_t timeout_ms[HK_PRICE_CANDIDATES]; /* rising, from 0 to never */
} hk_price_t;

/* False, and nothing is changed, when the price is outside HK_PRICE_LEAST ... HK_PRICE_MOST. */
bool hk_price_init(hk_price_t *price, uint64_t ns_per_mib_second);

/* Who has chosen a price below the balanced one looks at time more than at memory. */
HK_INLINE bool hk_price_is_cheap(uint64_t ns_per_mib_second) { return ns_per_mib_second < HK_PRICE_BALANCED; }

/* Giving back and wanting again costs as much as keeping for so long. */
HK_INLINE uint64_t hk_price_break_even_ms(const hk_price_t *price) { return price->give_ms + price->want_ms; }

/* Gaps by length: [i] holds those longer than candidate i - 1's time-out and no longer than candidate i's. All gaps of
 * one entry are kept or given back alike by each candidate, so their sums are all that there is to know. */
typedef struct {
  uint64_t kib[HK_PRICE_CANDIDATES];
  uint64_t kib_ms[HK_PRICE_CANDIDATES]; /* all sums stop at UINT64_MAX */
} hk_price_gaps_t;

void hk_price_add_gap(const hk_price_t *price, hk_price_gaps_t *gaps, size_t bytes, uint64_t gap_ms);

/* What a candidate pays for these gaps, in KiB x ms. `are_open`: they have not ended, and nothing was wanted again. */
uint64_t hk_price_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, unsigned candidate, bool are_open);

/* What a candidate would pay to give back now what it still keeps of gaps that have not ended. */
uint64_t hk_price_give_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, unsigned candidate);

/* What one would pay for these gaps who knew how long they last. Of gaps that have not ended this may be more than that:
 * those of one entry are all kept or all given back. */
uint64_t hk_price_least_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, bool are_open);

/* KiB x ms as ns of CPU. */
uint64_t hk_price_ns(const hk_price_t *price, uint64_t kib_ms);

HK_C_END

#endif /* HK_POLICY_PRICE_H */
