/* space/huge.c - L3. See huge.h. A child of fork may find numbers in the middle of a change. They decide which memory
 * gets advice and nothing else. */
#include "space/huge.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "base/mask.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/ahead.h"
#include "policy/option.h"
#include "policy/stat.h"
#include "policy/thp_policy.h"
#include "space/dirty.h"
#include "space/large_fill.h"

/* Chosen: most superslabs of a growing program are full, so few looks find one that is. */
#define FULL_LOOKS 8

/* True once a range was advised to be huge. Its addresses may become a superslab's. */
static _Atomic(bool) has_asked;

/* When the last superslab was made of new addresses. Each thread that makes one writes it. Of two at once, each may
 * take the other's time for the last one; the time decides about advice and nothing else. */
static _Atomic(uint64_t) last_new_ms;
/* When the first one was made; 0: none yet. */
static _Atomic(uint64_t) first_new_ms;

/* The two fields of hk_thp_pause_t. Each thread that makes a huge page writes them. Of two at once, each may miss the
 * other's. */
static _Atomic(uint64_t) pause_ms, paused_until_ms;

/* The expected CPU time of a collapse, which makes a huge page of resident memory. Each thread that makes one writes
 * it. Of two at once, each may miss the other's. */
static _Atomic(uint64_t) collapse_ns = HK_THP_COLLAPSE_NS;

/* Guarded by hk_lock_space. */
static struct {
  hk_thp_blocks_t blocks;
  const hk_superslab_t *last;      /* the last one that was examined for density */
  const hk_superslab_t *last_full; /* the last one that was examined by find_full */
  uint64_t next_look_ms;
  unsigned filled; /* large blocks that were found filled in a row, up to HK_AHEAD_ROW */
} huge;

/* ---- Terms. */

static hk_thp_terms_t find_terms(void) {
  return (hk_thp_terms_t){.choice = hk_option.huge_pages,
                          .setting = hk_os_huge_setting(),
                          .ns_per_mib_second = hk_option.mode,
                          .is_dear = hk_os_coarse_ms() < hk_load_relaxed(&paused_until_ms)};
}

/* ---- Advice. */

static void count(bool is_granted, size_t bytes) {
  hk_stat_add(is_granted ? hk_stat_huge_asked : hk_stat_huge_refused, bytes);
}

static bool is_small_piece(size_t bytes) { return bytes < hk_dirty_in_use() / HK_HUGE_PIECES; }

static bool allow(uintptr_t start, size_t bytes) {
  hk_store_relaxed(&has_asked, true);
  return hk_os_huge_advise((void *)start, bytes, true);
}

/* Advises for or against huge pages. Returns whether they were requested and granted. */
static bool advise(uintptr_t start, size_t bytes, hk_thp_advice_t advice) {
  if ((advice != hk_thp_ask && advice != hk_thp_forbid) || is_small_piece(bytes)) return false;
  if (advice == hk_thp_forbid) {
    (void)hk_os_huge_advise((void *)start, bytes, false);
    return false;
  }
  bool is_granted = allow(start, bytes);
  count(is_granted, bytes);
  return is_granted;
}

/* Makes one huge page. Returns whether the next one is worth a try: neither this one was dear, nor one that another
 * thread made meanwhile. */
static bool try_page(uintptr_t page) {
  uint64_t cpu_ns = hk_os_huge_touch((void *)page);
  hk_thp_pause_t pause = {hk_load_relaxed(&pause_ms), hk_load_relaxed(&paused_until_ms)};
  bool is_dear = hk_thp_policy_note_fault(&pause, hk_os_coarse_ms(), cpu_ns);
  hk_store_relaxed(&pause_ms, pause.ms);
  hk_store_relaxed(&paused_until_ms, pause.until_ms);
  if (is_dear) hk_stat_add(hk_stat_huge_dear, 1);
  return pause.ms == 0;
}

/* Makes the first huge pages of an advised range, up to a dear one. Returns whether none was dear. */
static bool try_first(const hk_thp_terms_t *terms, uintptr_t start, size_t bytes, bool is_known) {
  uintptr_t first = hk_align_up(start, HK_SUPERSLAB_BYTES);
  if (terms->choice != hk_huge_pages_auto || first - start + HK_SUPERSLAB_BYTES > bytes) return true;
  size_t tries = hk_thp_policy_tries(is_known, (start + bytes - first) / HK_SUPERSLAB_BYTES);
  for (size_t i = 0; i < tries; i++) {
    if (!try_page(first + i * HK_SUPERSLAB_BYTES)) return false;
  }
  return true;
}

/* ---- Superslabs. */

/* Returns whether a superslab is wholly in use, and not huge: of a huge one all is resident, whether it is dense or
 * not. */
static bool is_full_and_small(const hk_superslab_t *superslab) {
  return superslab->free_mask == 0 && superslab->slab_mask == HK_MASK_ALL && !superslab->has_hole &&
         !superslab->is_huge;
}

/* Returns the start of the next superslab for which is_full_and_small holds; 0 when the next few records have none. */
static uintptr_t find_full(void) {
  uintptr_t start = 0;
  hk_superslab_index_lock_all();
  for (unsigned looks = FULL_LOOKS; looks > 0 && start == 0; looks--) {
    huge.last_full = hk_superslab_index_next_record_locked(huge.last_full);
    if (huge.last_full == NULL) break;
    if (is_full_and_small(huge.last_full)) start = huge.last_full->start;
  }
  hk_superslab_index_unlock_all();
  return start;
}

/* Looks at the second half only if the first one leaves it open: of a sparse superslab one system call tells. */
static bool is_dense(const hk_thp_terms_t *terms, uintptr_t start) {
  size_t half_bytes = HK_SUPERSLAB_BYTES / 2, first_bytes = hk_os_resident_bytes((void *)start, half_bytes);
  if (!hk_thp_policy_is_dense(terms, first_bytes + half_bytes)) return false;
  return hk_thp_policy_is_dense(terms, first_bytes + hk_os_resident_bytes((void *)(start + half_bytes), half_bytes));
}

/* Returns whether one of the program's full superslabs is resident nearly whole: then the program will likely fill the
 * next one too. The superslab that is found may be free again when it is examined; then it is not resident. */
static bool is_program_dense(const hk_thp_terms_t *terms) {
  uintptr_t start = find_full();
  return start != 0 && is_dense(terms, start);
}

/* Notes a new superslab. Returns whether the program grows like one that will fill it. */
static bool note_growth(const hk_thp_terms_t *terms) {
  uint64_t now_ms = hk_os_coarse_ms();
  uint64_t first_ms = hk_load_relaxed(&first_new_ms), last_ms = hk_load_relaxed(&last_new_ms);
  if (first_ms == 0) hk_store_relaxed(&first_new_ms, first_ms = now_ms);
  hk_store_relaxed(&last_new_ms, now_ms);
  return hk_thp_policy_may_grow(terms, hk_dirty_sums_of_slabs().in_use_bytes, hk_subtract_to_zero(now_ms, first_ms),
                                hk_subtract_to_zero(now_ms, last_ms));
}

/* Returns the advice for a new superslab. Addresses that were advised as a large block's would become huge again, even
 * if the superslab is sparse. So the advice for them is hk_thp_forbid. */
static hk_thp_advice_t advice_for_superslab(const hk_thp_terms_t *terms, bool is_new) {
  bool is_asked = hk_thp_policy_has_looks(terms) && is_new && note_growth(terms) && is_program_dense(terms);
  if (is_asked) return hk_thp_ask;
  hk_thp_advice_t advice = hk_thp_policy_of_superslab(terms);
  return advice == hk_thp_leave && !is_new && hk_load_relaxed(&has_asked) ? hk_thp_forbid : advice;
}

bool hk_huge_note_new_superslab(uintptr_t start, bool is_new) {
  hk_thp_terms_t terms = find_terms();
  bool is_huge = advise(start, HK_SUPERSLAB_BYTES, advice_for_superslab(&terms, is_new));
  if (is_huge) (void)try_first(&terms, start, HK_SUPERSLAB_BYTES, true);
  return is_huge;
}

bool hk_huge_take_apart_locked(hk_superslab_t *superslab) {
  bool is_allowed = superslab->is_allowed;
  superslab->is_huge = superslab->is_allowed = false;
  return is_allowed;
}

void hk_huge_forbid_again(uintptr_t superslab_start) {
  (void)advise(superslab_start, HK_SUPERSLAB_BYTES, hk_thp_forbid);
}

static bool is_old_enough(uint64_t full_ms) { return hk_thp_policy_is_old(hk_load_relaxed(&collapse_ns), full_ms); }

/* Returns the next superslab that has been wholly in use for long enough; NULL when `*looks` records have none. It is
 * found again only after the same time once more. */
static hk_superslab_t *find_old_locked(uint64_t now_ms, unsigned *looks) {
  while (*looks > 0) {
    --*looks;
    hk_superslab_t *superslab = hk_superslab_index_next_record_locked(huge.last);
    if (superslab == NULL) return NULL;
    huge.last = superslab;
    if (superslab->start == 0 || !is_full_and_small(superslab)) continue;
    uint64_t since_ms = superslab->full_since_ms;
    bool is_old = since_ms != 0 && now_ms > since_ms && is_old_enough(now_ms - since_ms);
    if (since_ms == 0 || is_old) superslab->full_since_ms = now_ms;
    if (is_old) return superslab;
  }
  return NULL;
}

static bool collapse(uintptr_t start) {
  uint64_t took_ns, before_ns = hk_load_relaxed(&collapse_ns);
  if (!hk_os_huge_collapse((void *)start, HK_SUPERSLAB_BYTES, &took_ns)) return false;
  hk_store_relaxed(&collapse_ns, hk_thp_policy_collapse_ns(before_ns, took_ns));
  return true;
}

/* Makes a huge page. Sets the mapping's flag only where the collapse alone is refused: by kernels before 6.1, and where
 * huge pages are forbidden. */
static bool make_huge(uintptr_t start, bool *is_allowed) {
  *is_allowed = false;
  if (collapse(start)) return true;
  *is_allowed = !is_small_piece(HK_SUPERSLAB_BYTES) && allow(start, HK_SUPERSLAB_BYTES);
  if (*is_allowed) (void)collapse(start);
  return *is_allowed;
}

static void make_huge_if_dense(hk_superslab_t *superslab, uintptr_t start, uint64_t now_ms,
                               const hk_thp_terms_t *terms) {
  if (!is_dense(terms, start)) return;
  bool is_allowed;
  bool is_huge = make_huge(start, &is_allowed);
  count(is_huge, HK_SUPERSLAB_BYTES);
  hk_superslab_index_lock_all(); /* the record may describe a superslab of another shard now */
  if (superslab->full_since_ms == now_ms && superslab->start == start) {
    superslab->is_huge = is_huge;
    superslab->is_allowed = is_allowed;
  }
  hk_superslab_index_unlock_all();
}

bool hk_huge_is_due_locked(uint64_t now_ms) {
  if (HK_LIKELY(now_ms < huge.next_look_ms)) return false;
  huge.next_look_ms = now_ms + HK_HUGE_LOOK_MS;
  return true;
}

static void never_look(void) {
  hk_lock_acquire(hk_lock_space);
  huge.next_look_ms = UINT64_MAX;
  hk_lock_release(hk_lock_space);
}

static void look(uint64_t now_ms, unsigned most) {
  hk_thp_terms_t terms = find_terms();
  if (!hk_thp_policy_has_looks(&terms)) {
    never_look();
    return;
  }
  if (terms.is_dear) return;
  size_t records = hk_superslab_index_superslab_count();
  unsigned looks = records < HK_HUGE_LOOK_MAX ? (unsigned)records : HK_HUGE_LOOK_MAX;
  for (; most > 0; most--) {
    hk_superslab_index_lock_all();
    hk_superslab_t *superslab = find_old_locked(now_ms, &looks);
    uintptr_t start = superslab != NULL ? superslab->start : 0;
    hk_superslab_index_unlock_all();
    if (superslab == NULL) return;
    make_huge_if_dense(superslab, start, now_ms, &terms);
  }
}

void hk_huge_look(uint64_t now_ms) { look(now_ms, HK_HUGE_SETTLE_MAX); }

void hk_huge_visit(uint64_t now_ms) {
  hk_lock_acquire(hk_lock_space);
  bool is_due = hk_huge_is_due_locked(now_ms);
  hk_lock_release(hk_lock_space);
  if (is_due) look(now_ms, HK_HUGE_VISIT_MAX);
}

/* ---- Large blocks. */

static void note_block_locked(size_t bytes, unsigned written_probes, uint32_t life_ms) {
  bool is_filled = written_probes == HK_THP_PROBES;
  huge.filled = is_filled ? (unsigned)hk_smaller(huge.filled + 1, HK_AHEAD_ROW) : 0;
  if (bytes >= HK_SUPERSLAB_BYTES) hk_thp_policy_note_block(&huge.blocks, bytes, written_probes, life_ms);
}

/* Returns the time since `born_ms`, the lowest 32 bits of a time; 0 where the system refuses to tell the time. */
static uint32_t age_ms(uint32_t born_ms) {
  uint64_t now_ms = hk_os_coarse_ms();
  return now_ms == 0 ? 0 : (uint32_t)now_ms - born_ms;
}

/* Looks at some blocks that are in use, and notes those that are filled. */
static void look_at_open_blocks(void) {
  for (unsigned looks = HK_LARGE_FILL_LOOKS; looks > 0; looks--) {
    hk_large_filled_t block;
    if (!hk_large_fill_look(&block)) continue;
    uint32_t life_ms = age_ms(block.born_ms);
    hk_lock_acquire(hk_lock_space);
    note_block_locked(block.bytes, HK_THP_PROBES, life_ms);
    hk_lock_release(hk_lock_space);
  }
}

/* Returns the advice for a new block, and for how many of its first bytes. A part that may not be ahead of the program
 * tells whether the program fills it. */
static hk_thp_advice_t advice_for_block_locked(const hk_thp_terms_t *terms, uintptr_t start, size_t *bytes) {
  hk_thp_advice_t advice = hk_thp_policy_of_block(&huge.blocks, terms, *bytes);
  if (advice != hk_thp_ask || terms->choice != hk_huge_pages_auto) return advice;
  size_t room = hk_large_fill_room_locked(huge.filled);
  if (room < *bytes) *bytes = hk_subtract_to_zero(hk_align_down(start + room, HK_SUPERSLAB_BYTES), start);
  return *bytes == 0 ? hk_thp_sample : advice;
}

/* Forbids huge pages where a block before may have left advice for them. */
static void forbid_left(const hk_thp_terms_t *terms, uintptr_t start, size_t bytes) {
  if (terms->setting != hk_os_huge_on_request || bytes == 0 || !hk_load_relaxed(&has_asked)) return;
  (void)advise(start, bytes, hk_thp_forbid);
}

void hk_huge_note_new_block(hk_slab_t *slab, uintptr_t start, size_t bytes, bool is_new) {
  hk_thp_terms_t terms = find_terms();
  size_t advised_bytes = bytes;
  look_at_open_blocks();
  hk_lock_acquire(hk_lock_space);
  bool is_known = hk_thp_policy_is_known_size(&huge.blocks, &terms, bytes);
  hk_thp_advice_t advice = advice_for_block_locked(&terms, start, &advised_bytes);
  if (advice == hk_thp_ask) hk_large_fill_put_ahead_locked(slab, advised_bytes);
  hk_lock_release(hk_lock_space);
  size_t asked_bytes = advice == hk_thp_ask ? advised_bytes : 0;
  if (!is_new) forbid_left(&terms, start + asked_bytes, bytes - asked_bytes);
  if (advise(start, advised_bytes, advice) && !try_first(&terms, start, advised_bytes, is_known)) {
    advice = hk_thp_forbid;
    (void)advise(start, advised_bytes, advice);
  }
  if (advice == hk_thp_ask && advised_bytes < bytes) advice = hk_thp_sample;
  slab->huge = (uint8_t)advice;
}

void hk_huge_note_growing_block(hk_slab_t *slab, uintptr_t start, size_t old_bytes, size_t new_bytes) {
  if (slab->huge != hk_thp_ask || hk_option.huge_pages != hk_huge_pages_auto) return;
  hk_lock_acquire(hk_lock_space);
  bool has_room = new_bytes - old_bytes <= hk_large_fill_room_locked(huge.filled);
  hk_lock_release(hk_lock_space);
  if (has_room) return;
  slab->huge = hk_thp_forbid;
  (void)advise(start, old_bytes, hk_thp_forbid);
}

/* The kernel moves only one mapping at a time, and different advice makes several mappings. So the new part gets the
 * block's advice. */
void hk_huge_note_grown_block(const hk_slab_t *slab, uintptr_t end, size_t more_bytes) {
  if (slab->huge == hk_thp_ask || slab->huge == hk_thp_forbid)
    (void)advise(end, more_bytes, (hk_thp_advice_t)slab->huge);
}

void hk_huge_note_end_of_block(hk_slab_t *slab, uintptr_t start, size_t bytes) {
  hk_thp_advice_t advice = (hk_thp_advice_t)slab->huge;
  if (HK_LIKELY(advice != hk_thp_sample && advice != hk_thp_ask) || bytes < HK_SUPERSLAB_BYTES) return;
  hk_lock_acquire(hk_lock_space);
  bool is_open = slab->is_open;
  size_t ahead_bytes = hk_large_fill_ahead_bytes(slab);
  hk_lock_release(hk_lock_space);
  if (!is_open) return;
  uint32_t life_ms = age_ms(slab->born_ms);
  unsigned written = hk_large_fill_probe(start, bytes, ahead_bytes);
  hk_lock_acquire(hk_lock_space);
  if (written == HK_THP_PROBES) hk_large_fill_end_locked(slab);
  note_block_locked(bytes, written, life_ms);
  hk_lock_release(hk_lock_space);
}
