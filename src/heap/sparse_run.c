/* heap/sparse_run.c - L4. See sparse_run.h. */
#include "heap/sparse_run.h"

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/random.h"
#include "os/os.h"
#include "space/dirty.h"
#include "space/superslab_index.h"

/* Chosen: a run is sparse where at most one in this many of its pages is resident, without those of its end. */
#define PAGES_OF_ONE 3

/* The smallest page of x86-64 and arm64: no system has more pages in a run. */
#define PAGE_MIN_BYTES 4096

/* Chosen: a look at a run that is not known takes one to four microseconds. A new heap looks at the first 128. Then it
 * looks at one for each 16 known runs that come back, and at one in 64 where none does. More looks make a percentile of
 * calls slow: docs/experiments/2026-11-28-sparse-runs.md. */
#define BUDGET_OF_LOOK 64
#define BUDGET_OF_RETURN 4
#define BUDGET_MAX ((uint64_t)128 * BUDGET_OF_LOOK)

/* Chosen: a look at a known run takes a microsecond. After each four the mean distance of looks grows by a free
 * (measured: docs/experiments/2026-11-30-one-list-of-sparse-runs.md). */
#define LOOKS_OF_STEP 4
#define STEP_MAX 512

/* Chosen: one filled run says nothing of the others. A second one within as many looks does: their pages are no longer
 * known. */
#define LOOKS_OF_FILLED 8

/* Chosen: a call moves 16 runs at most. Each takes a tenth of a microsecond, with the lock of its shard held. */
#define LISTED_MAX 16

/* Chosen: where no run came for a second, the program may not request those that are kept. A request does not count: it
 * takes one of them. */
#define UNUSED_MS 1000

/* Chosen: a heap looks up once in this time whether the process has a limit on addresses. That takes as long as a look
 * at a run. */
#define LIMIT_MS 100

void hk_sparse_init(hk_sparse_t *sparse) {
  sparse->slab_pages = (unsigned)(HK_SLAB_BYTES / hk_os_page_size());
  sparse->look_budget = BUDGET_MAX;
  sparse->known_looks = sparse->until_look = 0;
  sparse->after_filled = 0;
  sparse->is_ending = false;
}

/* ---- The runs. */

/* Notes the resident pages of a run that is not kept; 0: they are not known. */
static void set_pages(hk_sparse_t *sparse, hk_slab_t *head, uint16_t pages) {
  if (hk_sparse_is_known(head)) hk_run_sum_subtract(&sparse->known, head);
  head->resident_pages = pages;
  if (!hk_sparse_is_known(head)) return;
  head->sparse.gone = &sparse->gone;
  hk_run_sum_add(&sparse->known, head);
}

static bool is_empty(hk_sparse_t *sparse) { return hk_load_relaxed(&sparse->kept.slabs) == 0; }

/* Returns the length that came least recently: the last free run of each other length came later. Requires that there
 * is a free run. */
static unsigned least_recent_length(const hk_sparse_t *sparse) {
  unsigned length = 0;
  uint64_t most = 0;
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) {
    const hk_slab_t *head = sparse->of_length[i];
    uint64_t age = head != NULL ? (uint64_t)(uint32_t)(sparse->puts - head->put_number) + 1 : 0;
    if (age > most) {
      length = i + 1;
      most = age;
    }
  }
  return length;
}

static void list_least_recent(hk_sparse_t *sparse, hk_list_t *rows) {
  hk_slab_t *head = hk_sparse_take(sparse, least_recent_length(sparse));
  set_pages(sparse, head, 0);
  hk_list_push_back(rows, &head->link);
}

static void list_some(hk_sparse_t *sparse, hk_list_t *rows) {
  for (unsigned i = 0; i < LISTED_MAX && !is_empty(sparse); i++) list_least_recent(sparse, rows);
  sparse->is_ending = !is_empty(sparse);
}

void hk_sparse_list_all(hk_sparse_t *sparse, hk_list_t *rows) {
  while (!is_empty(sparse)) list_least_recent(sparse, rows);
}

/* ---- Looks. */

/* Returns the bytes of a run of `slabs` that all its blocks have: a shorter block gets a shorter run. Blocks end
 * anywhere behind them. So pages of the end become resident one by one where a program writes the last byte of each
 * block, and say nothing of how far it fills them. */
static size_t common_bytes(unsigned slabs) {
  return slabs == 1 ? hk_larger(HK_SLAB_BYTES / 2, hk_os_page_size()) : (slabs - 1) * HK_SLAB_BYTES;
}

static bool is_sparse(size_t resident_pages, size_t bytes) {
  return resident_pages * PAGES_OF_ONE <= bytes / hk_os_page_size();
}

static size_t count_pages(const unsigned char *is_resident, size_t from_byte, size_t end_byte) {
  size_t count = 0, page = hk_os_page_size();
  for (size_t i = from_byte / page; i < end_byte / page; i++) count += is_resident[i];
  return count;
}

/* Returns the run's resident pages if it is sparse; 0 if it is not, and where the system does not tell. */
static uint16_t sparse_pages(const hk_slab_t *head) {
  unsigned char is_resident[HK_RUN_MAX_BYTES / PAGE_MIN_BYTES];
  size_t bytes = head->slab_count * HK_SLAB_BYTES, common = common_bytes(head->slab_count);
  HK_ASSERT(bytes <= HK_RUN_MAX_BYTES, "a heap keeps runs that requests ask for");
  if (!hk_os_resident_pages((void *)hk_slab_start(head), bytes, is_resident)) return 0;
  size_t pages = count_pages(is_resident, 0, common);
  return is_sparse(pages, bytes) ? (uint16_t)(pages + count_pages(is_resident, common, bytes)) : 0;
}

/* Looks at one of the run's slabs, which takes less time. */
static bool seems_sparse(hk_sparse_t *sparse, const hk_slab_t *head) {
  unsigned char is_resident[HK_SLAB_BYTES / PAGE_MIN_BYTES];
  size_t common = common_bytes(head->slab_count), bytes = hk_smaller(common, HK_SLAB_BYTES);
  const hk_slab_t *slab = head + hk_random(&sparse->random) % (common / bytes);
  if (!hk_os_resident_pages((void *)hk_slab_start(slab), bytes, is_resident)) return false;
  return is_sparse(count_pages(is_resident, 0, bytes), HK_SLAB_BYTES);
}

/* Draws how many known runs come back before the next look at one, and adds to the budget for those. The distance is
 * random, so that no pattern of the program's hides its filled runs. */
static void draw_distance(hk_sparse_t *sparse) {
  unsigned step = (unsigned)hk_smaller(sparse->known_looks / LOOKS_OF_STEP, STEP_MAX);
  sparse->until_look = (unsigned)(hk_random(&sparse->random) % (2 * step + 1));
  unsigned returns = sparse->until_look + 1;
  sparse->look_budget = (unsigned)hk_smaller(sparse->look_budget + BUDGET_OF_RETURN * returns, BUDGET_MAX);
}

static void look_at_known(hk_sparse_t *sparse, hk_slab_t *head) {
  if (!seems_sparse(sparse, head)) set_pages(sparse, head, sparse_pages(head));
  if (hk_sparse_is_known(head)) {
    sparse->known_looks++;
    if (sparse->after_filled > 0) sparse->after_filled--;
  } else {
    sparse->is_ending = sparse->after_filled > 0;
    sparse->known_looks = 0;
    sparse->after_filled = LOOKS_OF_FILLED;
  }
  draw_distance(sparse);
}

/* Kept runs are addresses that others lack where the process has a limit on them. */
static bool may_keep_new(hk_sparse_t *sparse) {
  uint64_t now_ms = hk_os_coarse_ms();
  if (now_ms >= sparse->limit_due_ms) {
    sparse->has_limit = hk_os_limits_addresses();
    sparse->limit_due_ms = now_ms + LIMIT_MS;
  }
  return !sparse->has_limit;
}

static void consider_new(hk_sparse_t *sparse, hk_slab_t *head) {
  if (sparse->look_budget < BUDGET_OF_LOOK) {
    sparse->look_budget++;
  } else {
    sparse->look_budget -= BUDGET_OF_LOOK;
    if (may_keep_new(sparse)) set_pages(sparse, head, sparse_pages(head));
  }
}

static void consider_look(hk_sparse_t *sparse, hk_slab_t *head) {
  if (!hk_sparse_is_known(head)) {
    consider_new(sparse, head);
  } else if (sparse->until_look-- == 0) {
    look_at_known(sparse, head);
  }
}

/* ---- The bound. */

static bool make_room(hk_sparse_t *sparse, size_t slabs, size_t pages, size_t room_slabs, hk_list_t *rows) {
  bool has_room = hk_sparse_has_room(sparse, slabs, pages, room_slabs);
  for (unsigned i = 0; !has_room && i < LISTED_MAX && !is_empty(sparse); i++) {
    list_least_recent(sparse, rows);
    has_room = hk_sparse_has_room(sparse, slabs, pages, room_slabs);
  }
  return has_room;
}

bool hk_sparse_keep(hk_sparse_t *sparse, hk_slab_t *head, size_t room_slabs, hk_list_t *rows) {
  if (hk_sparse_is_known(head) && head->sparse.gone != &sparse->gone)
    hk_run_forget_pages(head); /* another heap had kept it */
  if (hk_load_relaxed(&hk_dirty_is_near_limit)) sparse->is_ending = true;
  bool is_kept = false;
  if (!sparse->is_ending) {
    consider_look(sparse, head);
    is_kept = hk_sparse_is_known(head) && make_room(sparse, head->slab_count, head->resident_pages, room_slabs, rows);
  }
  if (sparse->is_ending) list_some(sparse, rows);
  if (is_kept) {
    hk_sparse_put(sparse, head);
  } else {
    set_pages(sparse, head, 0);
  }
  return is_kept;
}

/* ---- Time. */

void hk_sparse_pass_time(hk_sparse_t *sparse, uint64_t now_ms, size_t room_slabs, hk_list_t *rows) {
  if (now_ms - sparse->tick_ms >= UNUSED_MS) {
    if (sparse->puts == sparse->puts_before) sparse->is_ending = true;
    sparse->puts_before = sparse->puts;
    sparse->tick_ms = now_ms;
  }
  if (sparse->is_ending) {
    list_some(sparse, rows);
  } else {
    (void)make_room(sparse, 0, 0, room_slabs, rows);
  }
}
