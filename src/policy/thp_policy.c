/* policy/thp_policy.c - L2. See thp_policy.h. */
#include "policy/thp_policy.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "policy/option.h"
#include "policy/price.h"

#define PERMILLE 1000u
#define MS_PER_SECOND UINT64_C(1000)

/* Returns an average in which `now` counts for a quarter. */
static uint64_t mean(uint64_t before, uint64_t now) { return (3 * before + now) / 4; }

/* Returns the cost of keeping `bytes` resident for `ms`, in ns of CPU. */
static uint64_t cost_ns(const hk_thp_terms_t *terms, size_t bytes, uint64_t ms) {
  uint64_t ns;
  if (__builtin_mul_overflow(terms->ns_per_mib_second, bytes / HK_KIB, &ns)) return UINT64_MAX;
  if (__builtin_mul_overflow(ns / (HK_MIB / HK_KIB), ms, &ns)) return UINT64_MAX;
  return ns / MS_PER_SECOND;
}

static bool is_cheap(const hk_thp_terms_t *terms) { return hk_price_is_cheap(terms->ns_per_mib_second); }

static bool may_be_unused(const hk_thp_terms_t *terms, size_t unused_bytes) {
  return unused_bytes <= HK_SUPERSLAB_BYTES / (is_cheap(terms) ? HK_THP_WASTE_SHARE_FAST : HK_THP_WASTE_SHARE);
}

/* ---- Dear huge pages. */

bool hk_thp_policy_note_fault(hk_thp_pause_t *pause, uint64_t now_ms, uint64_t cpu_ns) {
  bool is_dear = cpu_ns > HK_THP_DEAR_NS;
  if (now_ms < pause->until_ms) return is_dear;
  pause->ms = is_dear ? hk_smaller(hk_larger(2 * pause->ms, HK_THP_PAUSE_MIN_MS), HK_THP_PAUSE_MAX_MS) : 0;
  pause->until_ms = now_ms + pause->ms;
  return is_dear;
}

size_t hk_thp_policy_tries(bool is_known, size_t pages) {
  size_t untried = pages / HK_THP_UNTRIED_SHARE + (pages % HK_THP_UNTRIED_SHARE != 0);
  return hk_smaller(hk_larger(pages - untried, 1), is_known ? HK_THP_TRIES_MAX : HK_THP_TRIES_UNKNOWN);
}

/* ---- Superslabs. */

hk_thp_advice_t hk_thp_policy_of_superslab(const hk_thp_terms_t *terms) {
  if (terms->setting == hk_os_huge_never) return hk_thp_leave;
  if (terms->choice == hk_huge_pages_always) return hk_thp_ask;
  return terms->setting == hk_os_huge_everywhere ? hk_thp_forbid : hk_thp_leave;
}

bool hk_thp_policy_has_looks(const hk_thp_terms_t *terms) {
  return terms->setting != hk_os_huge_never && terms->choice == hk_huge_pages_auto;
}

/* The CPU that advice before the first touch saves in a superslab that becomes full, in ns. */
#define SAVED_NS (HK_THP_SMALL_FAULTS_NS - HK_THP_FAULT_NS)

/* Returns the bytes in use from which all advised superslabs have saved the cost of half of the last one, unused for
 * `stay_ms`. */
static size_t grown_bytes(const hk_thp_terms_t *terms, uint64_t stay_ms) {
  uint64_t dearness = hk_price_times_balanced(terms->ns_per_mib_second);
  uint64_t saving = cost_ns(terms, HK_SUPERSLAB_BYTES / 2, hk_smaller(stay_ms, HK_THP_STAY_MAX_MS)) / SAVED_NS;
  uint64_t least = hk_larger(saving, dearness * (HK_THP_GROWN_MIN_BYTES / HK_SUPERSLAB_BYTES));
  return hk_smaller(least, HK_THP_GROWN_MAX_BYTES / HK_SUPERSLAB_BYTES) * HK_SUPERSLAB_BYTES;
}

bool hk_thp_policy_may_grow(const hk_thp_terms_t *terms, size_t in_use_bytes, uint64_t since_first_ms,
                            uint64_t since_last_ms) {
  if (terms->is_dear || in_use_bytes < grown_bytes(terms, since_first_ms)) return false;
  return cost_ns(terms, HK_SUPERSLAB_BYTES / 2, since_last_ms) <= SAVED_NS;
}

bool hk_thp_policy_is_old(uint64_t collapse_ns, uint64_t full_ms) {
  return full_ms >= hk_multiply_saturating(collapse_ns, MS_PER_SECOND) / HK_THP_GAIN_NS;
}

uint64_t hk_thp_policy_collapse_ns(uint64_t before_ns, uint64_t last_ns) { return mean(before_ns, last_ns); }

bool hk_thp_policy_is_dense(const hk_thp_terms_t *terms, size_t resident_bytes) {
  size_t unused_bytes = HK_SUPERSLAB_BYTES - resident_bytes;
  return may_be_unused(terms, unused_bytes) && cost_ns(terms, unused_bytes, MS_PER_SECOND) <= HK_THP_GAIN_NS;
}

/* ---- Large blocks. */

static unsigned index_of(size_t bytes) {
  unsigned i = hk_highest_bit(bytes) - HK_SUPERSLAB_SHIFT;
  return i < HK_THP_SIZES ? i : HK_THP_SIZES - 1;
}

/* Returns the nearest known size, a smaller one before a larger one, or NULL when none is within reach. */
static const hk_thp_size_t *nearest_known(const hk_thp_blocks_t *blocks, size_t bytes) {
  unsigned own = index_of(bytes);
  for (unsigned away = 0; away <= HK_THP_REACH; away++) {
    if (own >= away && blocks->size[own - away].is_known) return &blocks->size[own - away];
    if (own + away < HK_THP_SIZES && blocks->size[own + away].is_known) return &blocks->size[own + away];
  }
  return NULL;
}

/* Returns whether the saved faults are worth the unused bytes for the lifetime of such blocks. */
static bool pays(const hk_thp_size_t *size, const hk_thp_terms_t *terms) {
  size_t unused_bytes = HK_SUPERSLAB_BYTES / PERMILLE * (PERMILLE - size->used_permille);
  uint64_t saved_ns = HK_THP_SMALL_FAULTS_NS * size->used_permille / PERMILLE;
  if (!may_be_unused(terms, unused_bytes) || saved_ns <= HK_THP_FAULT_NS) return false;
  return cost_ns(terms, unused_bytes, size->life_ms) <= saved_ns - HK_THP_FAULT_NS;
}

static bool is_sample(hk_thp_size_t *size) {
  size->since_sample = (uint8_t)((size->since_sample + 1) % HK_THP_SAMPLE_SHARE);
  return size->since_sample == 0;
}

/* Returns whether the known sizes decide on the advice: neither the system nor the user has. */
static bool is_open(const hk_thp_terms_t *terms, size_t bytes) {
  return terms->setting != hk_os_huge_never && terms->choice == hk_huge_pages_auto && bytes >= HK_SUPERSLAB_BYTES;
}

bool hk_thp_policy_is_known_size(const hk_thp_blocks_t *blocks, const hk_thp_terms_t *terms, size_t bytes) {
  return !is_open(terms, bytes) || nearest_known(blocks, bytes) != NULL;
}

hk_thp_advice_t hk_thp_policy_of_block(hk_thp_blocks_t *blocks, const hk_thp_terms_t *terms, size_t bytes) {
  if (terms->setting == hk_os_huge_never) return hk_thp_leave;
  bool is_everywhere = terms->setting == hk_os_huge_everywhere;
  if (terms->choice == hk_huge_pages_never) return is_everywhere ? hk_thp_forbid : hk_thp_leave;
  if (bytes < HK_SUPERSLAB_BYTES) return hk_thp_leave;
  if (terms->choice == hk_huge_pages_always) return hk_thp_ask;
  const hk_thp_size_t *known = nearest_known(blocks, bytes);
  if (is_sample(&blocks->size[index_of(bytes)])) return hk_thp_sample;
  if (!terms->is_dear && (known == NULL || pays(known, terms))) return hk_thp_ask;
  return is_everywhere ? hk_thp_forbid : hk_thp_leave;
}

void hk_thp_policy_note_block(hk_thp_blocks_t *blocks, size_t bytes, unsigned written_probes, uint32_t life_ms) {
  hk_thp_size_t *size = &blocks->size[index_of(bytes)];
  unsigned used_permille = written_probes * PERMILLE / HK_THP_PROBES;
  bool is_first = !size->is_known;
  size->used_permille = (uint16_t)(is_first ? used_permille : mean(size->used_permille, used_permille));
  size->life_ms = is_first ? life_ms : (uint32_t)mean(size->life_ms, life_ms);
  size->is_known = true;
}
