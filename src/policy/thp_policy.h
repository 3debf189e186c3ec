/* policy/thp_policy.h - L2. Decides where to advise huge pages (of 2 MiB). Numbers in, numbers out.
 * docs/experiments/2026-11-22-huge-pages-where.md has the rules with their measurements.
 *
 * A huge page saves page faults, if the advice comes before the memory is touched. It saves misses of the processor's
 * table of addresses (TLB) for as long as the memory is in use. It costs the kernel's time to make it. It also costs,
 * at the price (policy/price.h), those of its bytes that stay unused, for as long as the memory is in use. So it pays
 * in memory that is dense for long enough.
 *
 * For a superslab, its density and the time for which it has been in use are known. For a large block the advice has to
 * come before the first touch, or it saves no faults. Blocks of about its size that have ended or are in use tell how
 * dense it will be. Blocks of an unknown size count as dense.
 *
 * The caller bounds how much of a block gets the advice, by the blocks of any size that were filled (policy/ahead.h).
 * At the program's start no block gets the advice.
 *
 * The kernel's cost is measured with the advice: the allocator touches the first huge pages at once. In a virtual
 * machine whose host takes back free memory, the host may have to find a huge page first. Other huge pages are dear
 * because the kernel has to move memory about. A dear huge page begins a pause without advice. Dear pages come in a
 * row, behind others that are not dear, so several pages of a block are tried
 * (docs/experiments/2026-11-22-huge-pages-dear.md).
 */
#ifndef HK_POLICY_THP_POLICY_H
#define HK_POLICY_THP_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"
#include "os/os.h"

HK_C_BEGIN

/* ---- Measured, on the machine that policy/price.h names. For 2 MiB, in ns of CPU: */
#define HK_THP_FAULT_NS UINT64_C(108000)        /* one fault, with the clearing of the page */
#define HK_THP_SMALL_FAULTS_NS UINT64_C(750000) /* the same in pages of 4 KiB */
/* Copying resident memory into a huge page: 0.3 to 3 ms, and 4 to 6.6 where the host has to find the page. */
#define HK_THP_COLLAPSE_NS UINT64_C(1000000)

/* ---- Chosen. */

/* The CPU that a dense superslab saves in a second as one huge page, in ns: far less than in a program that touches its
 * memory at random. */
#define HK_THP_GAIN_NS UINT64_C(100000)

/* At most 1/HK_THP_WASTE_SHARE of a huge page may lie unused, however low the price is, because users look at resident
 * memory. A price below the balanced one says that the user looks at time: then at most 1/HK_THP_WASTE_SHARE_FAST. */
#define HK_THP_WASTE_SHARE 64
#define HK_THP_WASTE_SHARE_FAST 4

/* When a program stops growing, half of its last superslab is expected to stay unused for as long as the program has
 * run, at most HK_THP_STAY_MAX_MS. What all its superslabs have saved has to pay for that. A program with less than
 * HK_THP_GROWN_MIN_BYTES in use gets no advice for new superslabs, however low the price is, and in proportion to
 * the price one with more, above the balanced one. HK_THP_GROWN_MAX_BYTES are always enough. */
#define HK_THP_STAY_MAX_MS UINT64_C(40000)
#define HK_THP_GROWN_MIN_BYTES (8 * HK_MIB)
#define HK_THP_GROWN_MAX_BYTES (64 * HK_MIB)

/* One in this many new blocks of known sizes gets no advice, so that their density stays known: with advice all of a
 * block is resident. */
#define HK_THP_SAMPLE_SHARE 64

/* A known doubling of sizes also stands for this many unknown ones on either side. */
#define HK_THP_REACH 2

/* The number of a block's pages that are looked at. */
#define HK_THP_PROBES 8

/* One entry for each doubling of sizes from HK_SUPERSLAB_BYTES on. Larger sizes share the last one. */
#define HK_THP_SIZES 16

/* ---- The advice, and its terms. */

typedef enum {
  hk_thp_leave,  /* no advice: the system decides */
  hk_thp_sample, /* as leave; the block's density is noted when it ends */
  hk_thp_ask,
  hk_thp_forbid,
} hk_thp_advice_t;

typedef struct {
  uint64_t choice; /* the option: hk_choice_huge_pages_t */
  hk_os_huge_t setting;
  uint64_t ns_per_mib_second; /* the price */
  bool is_dear;               /* a pause after a dear huge page is on (hk_thp_policy_note_fault) */
} hk_thp_terms_t;

/* ---- Dear huge pages. */

/* A huge page is dear above this CPU time, in ns. */
#define HK_THP_DEAR_NS (2 * HK_THP_SMALL_FAULTS_NS)

/* The pause after a dear huge page. It doubles when the next huge page is dear too, up to the most. Chosen: a shorter
 * first pause lets an idle server meet several dear pages (docs/experiments/2026-11-22-huge-pages-dear.md). */
#define HK_THP_PAUSE_MIN_MS UINT64_C(4000)
#define HK_THP_PAUSE_MAX_MS UINT64_C(64000)

/* Starts as all zero. */
typedef struct {
  uint64_t ms;       /* the length of the last pause; 0: the last huge page was not dear */
  uint64_t until_ms; /* the end of the last pause */
} hk_thp_pause_t;

/* The most huge pages of a block that are tried: of known sizes this many, which take 8 ms when none is dear. Of
 * unknown sizes fewer, because the program may not touch them. */
#define HK_THP_TRIES_MAX 32
#define HK_THP_TRIES_UNKNOWN 8
/* The last part of the block is not tried. Whether the program touches it shows whether such blocks are dense. */
#define HK_THP_UNTRIED_SHARE 8

/* Returns how many of a block's `pages` huge pages to try. Requires at least one page. */
size_t hk_thp_policy_tries(bool is_known, size_t pages);

/* Notes that making a huge page took `cpu_ns`, and returns whether that was dear. Does not change a pause that is on:
 * another thread began that page before the pause, and it does not tell what the next one will take. */
bool hk_thp_policy_note_fault(hk_thp_pause_t *pause, uint64_t now_ms, uint64_t cpu_ns);

/* ---- Superslabs. */

/* Advises on a new superslab, which is sparse. */
hk_thp_advice_t hk_thp_policy_of_superslab(const hk_thp_terms_t *terms);

/* Returns whether superslabs are looked at as they get older. */
bool hk_thp_policy_has_looks(const hk_thp_terms_t *terms);

/* Returns whether a superslab has been wholly in use for long enough. If the future is as the past, the huge page then
 * saves the `collapse_ns` that it takes to make. */
bool hk_thp_policy_is_old(uint64_t collapse_ns, uint64_t full_ms);

/* Returns the expected time of the next collapse, from the expectation before and the last one's time, in ns of CPU. */
uint64_t hk_thp_policy_collapse_ns(uint64_t before_ns, uint64_t last_ns);

/* Returns whether to advise a new superslab of a program that uses the memory it has. `since_first_ms` is the time
 * since the first superslab was made: the last one may stay half empty for as long. `since_last_ms` is the time since
 * the last one was made: the new one is expected to take as long to become full. */
bool hk_thp_policy_may_grow(const hk_thp_terms_t *terms, size_t in_use_bytes, uint64_t since_first_ms,
                            uint64_t since_last_ms);

/* Returns whether enough of a superslab is resident for the rest to be worth a huge page. */
bool hk_thp_policy_is_dense(const hk_thp_terms_t *terms, size_t resident_bytes);

/* ---- Large blocks. */

/* The known facts about blocks of one doubling of sizes. Starts as all zero. */
typedef struct {
  bool is_known;
  uint8_t since_sample;   /* new blocks since the last sample, or since the first block */
  uint16_t used_permille; /* written pages of a block: an average in which the last block counts for a quarter */
  uint32_t life_ms;       /* the lifetime of a block, averaged in the same way */
} hk_thp_size_t;

typedef struct {
  hk_thp_size_t size[HK_THP_SIZES];
} hk_thp_blocks_t;

/* Returns false where the advice depends on blocks of about this size, and none of them is known. Returns true also
 * where the system or the user has decided on the advice. */
bool hk_thp_policy_is_known_size(const hk_thp_blocks_t *blocks, const hk_thp_terms_t *terms, size_t bytes);

/* Advises on a new block whose memory is not resident. The caller bounds hk_thp_ask. */
hk_thp_advice_t hk_thp_policy_of_block(hk_thp_blocks_t *blocks, const hk_thp_terms_t *terms, size_t bytes);

/* Notes the density of a block with the advice hk_thp_sample or hk_thp_ask, when it ends or was found filled before:
 * the program had written `written_probes` of HK_THP_PROBES pages. */
void hk_thp_policy_note_block(hk_thp_blocks_t *blocks, size_t bytes, unsigned written_probes, uint32_t life_ms);

HK_C_END

#endif /* HK_POLICY_THP_POLICY_H */
