/* inspect/leak.c - L8. See leak.h. */
#include "inspect/leak.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "base/hash.h"
#include "inspect/profile.h"
#include "inspect/reach.h"
#include "inspect/sample.h"
#include "os/os.h"
#include "unwind/site_sums.h"

/* Chosen: room for sites that other threads add while the table is filled. */
#define ROOM_FOR_MORE 256

/* The coarse clock lags by no more than this. */
#define TICK_MS 20

typedef struct {
  hk_leak_t *leak;
  hk_reach_t *reach; /* NULL: no scan was made */
  uint64_t begun_ms;
} tally_t;

static bool make_rows(hk_leak_t *leak) {
  size_t sites = 0;
  for (const hk_site_t *site = hk_site_next(NULL); site != NULL; site = hk_site_next(site)) sites++;
  for (leak->row_count = 1; leak->row_count < 2 * (sites + ROOM_FOR_MORE);) leak->row_count *= 2;
  leak->rows =
      hk_os_reserve(hk_align_up(leak->row_count * sizeof(hk_leak_row_t), hk_os_page_size()), hk_os_page_size());
  return leak->rows != NULL;
}

/* Returns NULL when the table is full. */
static hk_leak_row_t *row_of(hk_leak_t *leak, const hk_site_t *site) {
  size_t first = hk_hash_place((uintptr_t)site, leak->row_count);
  for (size_t step = 0; step < leak->row_count; step++) {
    hk_leak_row_t *row = &leak->rows[(first + step) & (leak->row_count - 1)];
    if (row->site == NULL) row->site = site;
    if (row->site == site) return row;
  }
  return NULL;
}

static hk_leak_kind_t judge(const tally_t *tally, const hk_sample_t *sample) {
  if (tally->reach == NULL || sample->born_ms > tally->begun_ms) return hk_leak_unjudged;
  switch (hk_reach_has(tally->reach, sample->address)) {
    case hk_reach_yes:
      return hk_leak_reachable;
    case hk_reach_no:
      return hk_leak_unreachable;
    default:
      return hk_leak_unjudged;
  }
}

static void count(hk_leak_sums_t *sums, const hk_sample_weight_t *weight) {
  sums->samples++;
  sums->blocks_q16 += weight->weight_q16;
  sums->bytes += hk_site_sums_weighted(weight->requested_bytes, weight->weight_q16);
}

static void count_sample(const hk_sample_t *sample, void *context) {
  tally_t *tally = context;
  if (sample->weight.weight_q16 == 0 || sample->site == NULL) return;
  hk_leak_kind_t kind = judge(tally, sample);
  hk_leak_row_t *row = row_of(tally->leak, sample->site);
  if (row != NULL) count(&row->of[kind], &sample->weight);
  count(&tally->leak->all[kind], &sample->weight);
}

/* Waits until the coarse clock, which dates the samples, has advanced. A sample that is dated no later than begun_ms
 * then existed when the scan began. */
static void wait_for_clock_tick(void) {
  uint64_t begun_ms = hk_os_coarse_ms();
  for (unsigned i = 0; i < TICK_MS && hk_os_coarse_ms() < begun_ms + TICK_MS; i++) hk_os_pause(TICK_MS);
}

static void narrow(const hk_sample_t *sample, void *context) { hk_reach_narrow(context, sample->address); }

static hk_leak_scan_t result_of(const hk_reach_t *reach, hk_root_result_t roots) {
  if (roots == hk_root_no_memory) return hk_leak_no_memory;
  if (roots == hk_root_no_mappings) return hk_leak_no_mappings;
  if (reach->is_stopped) return hk_leak_stopped;
  return reach->is_cut_short ? hk_leak_out_of_time : hk_leak_scanned;
}

static hk_leak_scan_t scan(hk_reach_t *reach, uintptr_t frame, hk_root_threads_t *threads, bool (*may_go_on)(void)) {
  wait_for_clock_tick();
  if (!hk_reach_begin(reach, HK_LEAK_SCAN_MS, may_go_on)) return hk_leak_no_memory;
  hk_sample_visit(narrow, reach);
  hk_leak_scan_t result = result_of(reach, hk_root_follow_all(reach, frame, threads));
  if (result != hk_leak_scanned) hk_reach_end(reach);
  return result;
}

bool hk_leak_take(hk_leak_t *leak, bool is_scanned, uintptr_t frame, bool (*may_go_on)(void)) {
  hk_reach_t reach;
  tally_t tally = {.leak = leak, .begun_ms = hk_os_coarse_ms()};
  *leak = (hk_leak_t){.rate_bytes = hk_profile_rate(), .scan = hk_leak_not_scanned};
  if (!make_rows(leak)) return false;
  if (is_scanned) {
    leak->scan = scan(&reach, frame, &leak->threads, may_go_on);
    leak->scan_ms = hk_subtract_to_zero(hk_os_coarse_ms(), tally.begun_ms);
    if (leak->scan == hk_leak_scanned) {
      tally.reach = &reach;
      leak->scan_bytes = reach.bytes_read;
    }
  }
  hk_profile_sums_t sums = hk_profile_sums();
  leak->samples = sums.samples;
  leak->lost = sums.lost;
  hk_sample_visit(count_sample, &tally);
  if (tally.reach != NULL) hk_reach_end(&reach);
  return true;
}

void hk_leak_end(hk_leak_t *leak) {
  (void)hk_os_unmap(leak->rows, hk_align_up(leak->row_count * sizeof(hk_leak_row_t), hk_os_page_size()));
}
