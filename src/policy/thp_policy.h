/* policy/thp_policy.h - L2. Where huge pages (of 2 MiB) pay. Numbers in, numbers out.
 *
 * A huge page saves page faults, if memory is touched after it was asked for, and misses of the processor's table of
 * addresses for as long as the memory is in use. It costs what the system does to make one, and those of its bytes that
 * nobody uses, for as long as the memory is in use, at the price (policy/price.h). So it pays in memory that is dense, and
 * that is dense for long enough.
 *
 * Of a superslab both are known. A large block is asked for before it is touched, or the faults are not saved: what is known
 * are others of about its size, which ended, or are in use. At the start nothing is known, and nothing is asked for; but below
 * the balanced price blocks count as dense until it is known that they are not.
 *
 * What the system does is measured where it is asked: the first huge page of what is asked for is made at once.
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

/* ---- Measured, on the machine that policy/price.h names. Of 2 MiB, in ns of CPU: */
#define HK_HUGE_FAULT_NS UINT64_C(108000)        /* one fault, and clearing what it gives */
#define HK_HUGE_SMALL_FAULTS_NS UINT64_C(750000) /* the same in pages of 4 KiB */
/* Copying what is there into one: 0.3 to 3 ms, and 4 to 6.6 where the host has to find it. */
#define HK_HUGE_COLLAPSE_NS UINT64_C(1000000)

/* ---- Chosen. */

/* How much CPU a dense superslab saves in a second as one huge page, in ns: a twentieth of what it was in
 * random_mixed_large_set, which does nothing but touch 59 of them at random. */
#define HK_HUGE_GAIN_NS UINT64_C(100000)

/* Of what a huge page is asked for, no larger part may lie unused, however low the price is: people look at what is
 * resident. Those who chose a price below the balanced one have said that they look at the time. */
#define HK_HUGE_WASTE_SHARE 64
#define HK_HUGE_WASTE_SHARE_FAST 4

/* A program that has stopped growing is expected to stay as it is for as long as it has run, but no longer than that, with half
 * of its last superslab unused; and in what it has in use that may be no larger part, or need be no smaller one, whatever
 * the price. */
#define HK_HUGE_STAY_MOST_MS UINT64_C(40000)
#define HK_HUGE_GROWN_LEAST_BYTES (8 * HK_MIB)
#define HK_HUGE_GROWN_MOST_BYTES (64 * HK_MIB)

/* Of so many new blocks of known sizes one is left to itself, so that their density stays known: where huge pages were
 * asked for everything is resident. */
#define HK_HUGE_SAMPLE_SHARE 64

/* What is known of one doubling of sizes goes for so many on either side of which nothing is known. */
#define HK_HUGE_REACH 2

/* How many pages of a block are looked at. */
#define HK_HUGE_PROBES 8

/* One entry for each doubling of sizes from HK_SUPERSLAB_BYTES on; larger sizes share the last one. */
#define HK_HUGE_SIZES 16

/* ---- What is asked for. */

typedef enum {
  hk_huge_leave,  /* to the system */
  hk_huge_sample, /* the same, and the block's density is to be told when it ends */
  hk_huge_ask,
  hk_huge_forbid,
} hk_thp_advice_t;

typedef struct {
  uint64_t choice; /* the option: hk_choice_huge_pages_t */
  hk_os_huge_t setting;
  uint64_t ns_per_mib_second; /* the price */
  bool is_dear; /* of late a huge page has taken more CPU to make than small ones do (hk_thp_policy_note_fault) */
} hk_huge_terms_t;

/* ---- What one costs here, now. */

/* In a virtual machine whose host takes back what is free, a huge page may be one that the host has to find first: 6 ms were
 * measured, where small pages came from what was freed a moment ago. Others come after the kernel has moved memory about. */
#define HK_HUGE_DEAR_NS (2 * HK_HUGE_SMALL_FAULTS_NS)

/* Then for so long none is asked for; the next one tells whether it is for two times as long. Chosen: with one second
 * idle_server_large, which takes 0.12 to 0.15 s of CPU, met four dear ones in its two; with four it takes 0.94 of that. */
#define HK_HUGE_PAUSE_LEAST_MS UINT64_C(4000)
#define HK_HUGE_PAUSE_MOST_MS UINT64_C(64000)

/* All zero to begin with. */
typedef struct {
  uint64_t ms;       /* the last one; 0: the last huge page was not dear */
  uint64_t until_ms; /* its end */
} hk_huge_pause_t;

/* Huge pages that the host has are made in a row, and so are those that it has to find: a block of 96 MiB had 3 to 45 at 0.25 ms
 * before the first one at 5.8, and all behind that one took as much. So of a block that is asked for several are tried, as the
 * program is about to touch them: of sizes that are known to be dense so many at the most, which take 8 ms where none is dear, and of
 * others fewer, for nobody knows that they will be touched. */
#define HK_HUGE_TRIES_MOST 32
#define HK_HUGE_TRIES_UNKNOWN 8
/* A last part of the block, so large, is left to the program: whether it touches that tells whether such blocks are dense. */
#define HK_HUGE_UNTRIED_SHARE 8

/* How many of a block's `pages` huge pages, of which there is at least one. */
size_t hk_thp_policy_tries(bool is_known, size_t pages);

/* One was made, and took so much. Whether that was dear. During a pause nothing changes: it was begun before that, by another thread than
 * the one that found out, and says nothing about what the next one will take. */
bool hk_thp_policy_note_fault(hk_huge_pause_t *pause, uint64_t now_ms, uint64_t cpu_ns);

/* ---- Superslabs. */

/* Of a new one, which is sparse. */
hk_thp_advice_t hk_thp_policy_of_superslab(const hk_huge_terms_t *terms);

/* Whether superslabs are looked at as they grow older. */
bool hk_thp_policy_has_looks(const hk_huge_terms_t *terms);

/* Whether one has been wholly in use for long enough: making the huge page, which takes so much, has been earned then, if the future is
 * as the past. */
bool hk_thp_policy_is_old(uint64_t collapse_ns, uint64_t full_ms);

/* What the next one is expected to take, from what the last ones and this one did. */
uint64_t hk_thp_policy_collapse_ns(uint64_t before_ns, uint64_t last_ns);

/* Where that is so: whether a new one is asked for if the program uses what it has. So much is in use; it is so long ago that the first
 * one was made, and the last one: this one will be full when as much time as since the last has gone by. The last of them may stay as
 * empty as it is then for as long as since the first. */
bool hk_thp_policy_may_grow(const hk_huge_terms_t *terms, size_t in_use_bytes, uint64_t since_first_ms,
                            uint64_t since_last_ms);

/* Whether so much of one is resident that the rest is worth it. */
bool hk_thp_policy_is_dense(const hk_huge_terms_t *terms, size_t resident_bytes);

/* ---- Large blocks. */

/* What is known of blocks of a size. All zero to begin with. */
typedef struct {
  bool is_known;
  uint8_t since_sample;   /* so many new blocks since one was left to itself, or since the first */
  uint16_t used_permille; /* of their pages: the mean, in which the last block counts for a quarter */
  uint32_t life_ms;       /* the same of how long they lived */
} hk_huge_size_t;

typedef struct {
  hk_huge_size_t size[HK_HUGE_SIZES];
} hk_huge_blocks_t;

/* Whether so little is known of blocks of this size that a look at one in use is worth it. Never where nothing depends on it. */
bool hk_thp_policy_is_ignorant(const hk_huge_blocks_t *blocks, const hk_huge_terms_t *terms, size_t bytes);

/* Of a new block whose memory is not resident. */
hk_thp_advice_t hk_thp_policy_of_block(hk_huge_blocks_t *blocks, const hk_huge_terms_t *terms, size_t bytes);

/* One that was hk_huge_sample or hk_huge_ask has ended, or was found to be dense before: so many of the HK_HUGE_PROBES pages were resident. Where huge pages
 * were asked for only what is missing tells something. */
void hk_thp_policy_note_block(hk_huge_blocks_t *blocks, hk_thp_advice_t advice, size_t bytes, unsigned resident_probes,
                              uint32_t life_ms);

HK_C_END

#endif /* HK_POLICY_THP_POLICY_H */
