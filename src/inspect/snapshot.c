/* inspect/snapshot.c - L8. See snapshot.h. */
#include "inspect/snapshot.h"

#include "api/alloc.h"
#include "base/arithmetic.h"
#include "base/bits.h"
#include "inspect/profile.h"
#include "inspect/sample.h"
#include "inspect/survey.h"
#include "os/call_count.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/shard.h"
#include "policy/sampling.h"
#include "space/dirty.h"
#include "space/guard_slot.h"
#include "space/meta.h"
#include "space/purge_wakeup.h"
#include "space/region_map.h"
#include "space/timed_call.h"
#include "unwind/site.h"
#include "unwind/site_sums.h"

/* ---- Texts. */

enum { words_of_none, words_of_band, words_of_state };

#define LONGEST_LIST 4
static const char words[][LONGEST_LIST][12] = {
    [words_of_band] = {"tiny", "mid", "run", "large"},
    [words_of_state] = {"attached", "idle", "orphan", "lost"},
};

const char *hk_figure_word(const hk_figure_text_t *figure, uint64_t value) { return words[figure->words][value]; }

static_assert((int)HAKMEM_HEAP_ATTACHED == (int)hk_heap_attached && (int)HAKMEM_HEAP_IDLE == (int)hk_heap_idle &&
                  (int)HAKMEM_HEAP_ORPHAN == (int)hk_heap_orphan && (int)HAKMEM_HEAP_LOST == (int)hk_heap_lost,
              "the public interface says it in the same numbers");

/* The words of a figure whose unit is WORD, by its name. */
#define WORDS_COUNT(name) words_of_none
#define WORDS_BYTES(name) words_of_none
#define WORDS_MS(name) words_of_none
#define WORDS_WORD(name) words_of_##name

#define TEXT(type, section, field, name, unit, help, is_estimate) \
  {section, #name, help, offsetof(type, field), hk_figure_##unit, WORDS_##unit(name), is_estimate},

const hk_figure_text_t hk_figures_of_process[] = {
#define HK_FIGURE(section, name, unit, help) TEXT(hakmem_stats_t, #section, section##_##name, name, unit, help, false)
#define HK_ESTIMATE(section, name, unit, help) TEXT(hakmem_stats_t, #section, section##_##name, name, unit, help, true)
#include "policy/figure.def"
    {.name = ""}};

const hk_figure_text_t hk_figures_of_band[] = {
#define HK_BAND_FIGURE(name, unit, help) TEXT(hakmem_stats_band_t, "", name, name, unit, help, false)
#define HK_BAND_ESTIMATE(name, unit, help) TEXT(hakmem_stats_band_t, "", name, name, unit, help, true)
#include "policy/figure.def"
    {.name = ""}};

const hk_figure_text_t hk_figures_of_class[] = {
#define HK_CLASS_FIGURE(name, unit, help) TEXT(hakmem_stats_class_t, "", name, name, unit, help, false)
#define HK_CLASS_ESTIMATE(name, unit, help) TEXT(hakmem_stats_class_t, "", name, name, unit, help, true)
#include "policy/figure.def"
    {.name = ""}};

const hk_figure_text_t hk_figures_of_heap[] = {
#define HK_HEAP_FIGURE(name, unit, help) TEXT(hakmem_stats_heap_t, "", name, name, unit, help, false)
#define HK_HEAP_ESTIMATE(name, unit, help) TEXT(hakmem_stats_heap_t, "", name, name, unit, help, true)
#include "policy/figure.def"
    {.name = ""}};

#define FITS(a, b, c)                                                  \
  static_assert(sizeof(a) <= sizeof hk_figures_of_process->section &&  \
                    sizeof(b) <= sizeof hk_figures_of_process->name && \
                    sizeof(c) <= sizeof hk_figures_of_process->help,   \
                "the text fits with its zero byte");
#define HK_FIGURE(section, name, unit, help) FITS(#section, #name, help)
#define HK_BAND_FIGURE(name, unit, help) FITS("", #name, help)
#define HK_CLASS_FIGURE(name, unit, help) FITS("", #name, help)
#define HK_HEAP_FIGURE(name, unit, help) FITS("", #name, help)
#include "policy/figure.def"

/* ---- Totals. */

static uint64_t start_ms;

void hk_snapshot_note_start(void) { start_ms = hk_os_coarse_ms(); }

/* Adds the counters that layers below `policy` keep. Reads a lock's waits first, so that the takes that belong to them
 * are included. */
static void add_costs(uint64_t *counter) {
#define ADD_LOCK(name, lock)                                  \
  counter[hk_stat_##name##_wait] += hk_lock_wait_count(lock); \
  counter[hk_stat_##name##_take] += hk_lock_take_count(lock)
  ADD_LOCK(lock_pool, hk_lock_heap_pool);
  for (unsigned i = 0; i < HK_LOCK_SHARDS; i++) {
    ADD_LOCK(lock_space, hk_shard_lock(i));
  }
  ADD_LOCK(lock_space, hk_lock_space);
  ADD_LOCK(lock_meta, hk_lock_meta);
  ADD_LOCK(lock_guard, hk_lock_guard);
#undef ADD_LOCK
  static_assert(hk_lock_count == 4 + HK_LOCK_SHARDS, "each lock is counted");
  counter[hk_stat_system_call_map] += hk_call_count(hk_call_map);
  counter[hk_stat_system_call_unmap] += hk_call_count(hk_call_unmap);
  counter[hk_stat_system_call_advise] += hk_call_count(hk_call_advise);
  counter[hk_stat_system_call_other] += hk_call_count(hk_call_other);
}

hk_totals_t hk_totals_take(void) {
  hk_totals_t totals = {.superslab = hk_superslab_usage(),
                        .large = hk_large_usage(),
                        .record_bytes = hk_meta_mapped_bytes() + hk_region_map_mapped_bytes(),
                        .heap_idle_count = hk_heap_count(hk_heap_idle) + hk_heap_count(hk_heap_unused),
                        .heap_lost_count = hk_heap_count(hk_heap_lost)};
#if HK_COUNT
  hk_count_sum(totals.cost);
#endif
  hk_stat_sum(totals.counter, &hk_stat_process);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    hk_stat_sum(totals.counter, &heap->stat);
    totals.heap_count++;
  }
  add_costs(totals.counter);
  return totals;
}

/* ---- Bands and classes. */

static void add_to_band(hakmem_stats_band_t *band, const hk_census_count_t *count) {
  band->live_blocks += count->live_blocks;
  band->live_bytes += count->live_bytes;
  band->slabs += count->slabs;
  band->resident += count->resident_bytes;
  band->free_bytes += count->free_bytes;
}

static void add_class(hk_snapshot_t *snapshot, unsigned class_index) {
  const hk_census_count_t *count = &snapshot->census.of_class[class_index];
  unsigned band = hk_class_is_mid(class_index) ? HAKMEM_BAND_MID : HAKMEM_BAND_TINY;
  if (count->spans == 0) return;
  add_to_band(&snapshot->band[band], count);
  snapshot->of_class[snapshot->class_count++] = (hakmem_stats_class_t){
      .bytes = hk_class_bytes(class_index),
      .band = band,
      .spans = count->spans,
      .slabs = count->slabs,
      .live_blocks = count->live_blocks,
      .live_bytes = count->live_bytes,
      .free_blocks = count->free_blocks,
      .free_bytes = count->free_bytes,
      .resident = count->resident_bytes,
      .spans_nearly_empty = count->spans_nearly_empty,
  };
}

static void fill_bands(hk_snapshot_t *snapshot) {
  for (unsigned i = 0; i < HAKMEM_STATS_BANDS; i++) snapshot->band[i].band = i;
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) add_class(snapshot, i);
  add_to_band(&snapshot->band[HAKMEM_BAND_RUN], &snapshot->census.run);
  add_to_band(&snapshot->band[HAKMEM_BAND_LARGE], &snapshot->census.large);
}

/* ---- Figures. */

static void fill_memory(hakmem_stats_t *figures, const hk_totals_t *totals) {
  hk_os_memory_t memory = hk_os_memory();
  figures->memory_resident = memory.resident_bytes;
  figures->memory_peak = memory.peak_resident_bytes;
  figures->memory_in_use = totals->superslab.in_use_bytes;
  figures->memory_dirty_slabs = totals->superslab.dirty_bytes;
  figures->memory_lazy = totals->superslab.lazy_bytes;
  figures->memory_superslabs = totals->superslab.mapped_bytes;
  figures->memory_large_blocks = totals->large.mapped_bytes;
  figures->memory_large_cached = totals->large.cached_bytes;
  figures->memory_large_dirty = totals->large.dirty_bytes;
  figures->memory_limit = hk_dirty_limit_bytes();
  figures->memory_records = totals->record_bytes;
  figures->memory_mappings = hk_os_mapping_count();
  figures->memory_heaps = totals->heap_count;
  figures->memory_heaps_idle = totals->heap_idle_count;
  figures->memory_heaps_lost = totals->heap_lost_count;
}

/* A cached page is resident because it is dirty, because the kernel has not taken it after a lazy purge, or because it
 * is part of a huge page. Otherwise it is not resident. */
static void fill_cached(hakmem_stats_t *figures, const hk_census_t *census) {
  figures->memory_cached = census->cached_bytes;
  figures->memory_dirty = census->kept_bytes + census->dirty_bytes + census->large_dirty_bytes;
  uint64_t resident = figures->memory_dirty + census->lazy_bytes + census->unused_bytes;
  figures->memory_purged = hk_subtract_to_zero(census->cached_bytes, resident);
  figures->huge_excess = census->huge_excess_bytes;
}

static void fill_parts(hakmem_stats_t *figures, const hk_census_t *census) {
  figures->parts_live = census->live_bytes;
  figures->parts_free_in_slabs = census->free_bytes;
  figures->parts_uncarved = census->uncarved_bytes;
  figures->parts_kept_by_heaps = census->kept_bytes;
  figures->parts_dirty_slabs = census->dirty_bytes;
  figures->parts_lazy = census->lazy_bytes;
  figures->parts_large_dirty = census->large_dirty_bytes;
  figures->parts_metadata = census->metadata_bytes;
  uint64_t ours = census->live_bytes + census->free_bytes + census->uncarved_bytes + census->kept_bytes +
                  census->dirty_bytes + census->lazy_bytes + census->large_dirty_bytes + census->metadata_bytes;
  figures->parts_not_malloc = hk_subtract_to_zero(figures->memory_resident, ours);
}

static void fill_live(hk_snapshot_t *snapshot) {
  hakmem_stats_t *figures = &snapshot->figures;
  const uint64_t *counter = snapshot->totals.counter;
  for (unsigned i = 0; i < HAKMEM_STATS_BANDS; i++) {
    figures->live_bytes += snapshot->band[i].live_bytes;
    figures->live_blocks += snapshot->band[i].live_blocks;
  }
  figures->live_blocks_freed_remotely =
      hk_subtract_to_zero(counter[hk_stat_remote_free], counter[hk_stat_remote_drain]);
  figures->live_spans_estimated = snapshot->census.spans_estimated;
}

/* Adds the bytes by which a sampled block is longer than an unsampled one of its request. */
static void add_excess(const hk_sample_t *sample, void *context) {
  uint64_t *bytes = context, usual = sample->weight.block_bytes;
  *bytes += hk_subtract_to_zero(hk_good_size(sample->offset + usual), usual);
}

/* Applies the samples' ratio of requested bytes to block bytes to all live blocks. The ratio is at most 1. */
static void fill_estimates(hk_snapshot_t *snapshot) {
  if (!hk_profile_is_running()) return;
  uint64_t requested = 0, block_bytes = 0, allocated_q16 = 0, freed_q16 = 0;
  for (const hk_site_t *site = hk_site_next(NULL); site != NULL; site = hk_site_next(site)) {
    hk_site_figures_t allocated, in_use;
    hk_site_sums_read(site, &allocated, &in_use);
    requested += in_use.requested_bytes;
    block_bytes += in_use.block_bytes;
    allocated_q16 += hk_load_relaxed(&site->allocated.objects_q16);
    freed_q16 += hk_load_relaxed(&site->freed.objects_q16);
  }
  if (block_bytes == 0) return;
  uint64_t excess = 0;
  hk_sample_visit(add_excess, &excess);
  uint64_t usual = hk_subtract_to_zero(snapshot->figures.live_bytes, excess);
  unsigned __int128 scaled = (unsigned __int128)usual * hk_smaller(requested, block_bytes);
  hakmem_stats_t *figures = &snapshot->figures;
  figures->live_requested_estimate = (uint64_t)(scaled / block_bytes);
  figures->live_inside_estimate = figures->live_bytes - figures->live_requested_estimate;
  figures->live_allocated_estimate = hk_site_sums_rounded(allocated_q16);
  figures->live_freed_estimate = hk_site_sums_rounded(freed_q16);
  snapshot->has_estimates = true;
}

static void fill_guard(hakmem_stats_t *figures) {
  hk_guard_usage_t usage = hk_guard_slot_usage(hk_os_coarse_ms());
  figures->guard_rate = hk_load_relaxed(&hk_sampling_guard_rate);
  figures->guard_slots = usage.slots;
  figures->guard_live = usage.live;
  figures->guard_live_bytes = usage.live_bytes;
  figures->guard_protected = usage.freed;
  figures->guard_age_ms = usage.age_ms;
}

static void fill_learning(hakmem_stats_t *figures, const hk_learn_t *learned) {
  uint64_t price = learned->price.ns_per_mib_second;
  figures->learning_price = price;
  figures->learning_dearness = hk_price_is_cheap(price) ? 0 : hk_price_times_balanced(price);
  figures->learning_break_even_ms = hk_price_break_even_ms(&learned->price);
  figures->learning_timeout_ms = hk_learn_timeout_ms(learned);
  figures->learning_epochs = learned->epoch;
  unsigned purges, faults;
  figures->learning_purge_cost = hk_timed_call_cost_ns(hk_timed_purge, &purges);
  figures->learning_fault_cost = hk_timed_call_cost_ns(hk_timed_fault, &faults);
  figures->learning_purge_samples = purges;
  figures->learning_fault_samples = faults;
}

static void fill_figures(hk_snapshot_t *snapshot) {
  hakmem_stats_t *figures = &snapshot->figures;
  figures->version = HAKMEM_STATS_VERSION;
  figures->filled = sizeof *figures;
  figures->process_time_ms = hk_os_unix_ms();
  figures->process_uptime_ms = hk_subtract_to_zero(hk_os_coarse_ms(), start_ms);
  figures->process_page_bytes = hk_os_page_size();
  figures->huge_superslabs = snapshot->census.superslabs_huge;
  fill_memory(figures, &snapshot->totals);
  fill_parts(figures, &snapshot->census);
  fill_cached(figures, &snapshot->census);
  fill_live(snapshot);
  fill_estimates(snapshot);
  fill_learning(figures, &snapshot->learned);
  fill_guard(figures);
}

/* ---- Heaps. */

static void fill_heap(hakmem_stats_heap_t *out, hk_heap_t *heap, const hk_census_count_t *count) {
  hk_heap_life_t life = hk_heap_life(heap); /* a part that is no named heap's waits as an idle heap does */
  *out = (hakmem_stats_heap_t){.state = life == hk_heap_unused ? hk_heap_idle : life,
                               .node = hk_shard_node(hk_load_relaxed(&heap->shard)),
                               .slabs = count->slabs,
                               .spare_slabs = hk_heap_spare_slabs(heap),
                               .number = hk_load_relaxed(&heap->number),
                               .live_blocks = count->live_blocks,
                               .live_bytes = count->live_bytes,
                               .free_blocks = count->free_blocks,
                               .free_bytes = count->free_bytes,
                               .resident = count->resident_bytes};
#define FIGURE_OF(name) out->name = hk_load_relaxed(&heap->stat.value[hk_stat_##name])
  FIGURE_OF(refill);
  FIGURE_OF(carve);
  FIGURE_OF(slab_acquire);
  FIGURE_OF(slab_release);
  FIGURE_OF(slab_move);
  FIGURE_OF(remote_free);
  FIGURE_OF(remote_drain);
  FIGURE_OF(refill_remote);
  FIGURE_OF(refill_used);
  FIGURE_OF(refill_carve);
  FIGURE_OF(refill_failed);
  FIGURE_OF(slab_reuse);
  FIGURE_OF(slab_reserve);
#undef FIGURE_OF
}

static void fill_heaps(hk_snapshot_t *snapshot) {
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    size_t number = hk_load_relaxed(&heap->number);
    if (number > snapshot->heap_count) continue;
    fill_heap(&snapshot->heap[number - 1], heap, &snapshot->heap_census.of[number - 1]);
  }
}

/* ---- Estimates of bands, classes and heaps. */

static void fill_estimates_of_parts(hk_snapshot_t *snapshot) {
  const hk_estimates_t *estimates = &snapshot->estimates;
  hk_estimates_take(&snapshot->estimates);
  for (unsigned i = 0; i < HAKMEM_STATS_BANDS; i++) {
    hakmem_stats_band_t *band = &snapshot->band[i];
    band->requested_estimate = hk_estimate_requested(&estimates->of_band[i], band->live_bytes);
  }
  for (unsigned i = 0; i < snapshot->class_count; i++) {
    hakmem_stats_class_t *class = &snapshot->of_class[i];
    const hk_estimate_t *estimate = &estimates->of_class[hk_class_of(class->bytes)];
    class->requested_estimate = hk_estimate_requested(estimate, class->live_bytes);
  }
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    hakmem_stats_heap_t *heap = &snapshot->heap[i];
    heap->requested_estimate = hk_estimate_requested(&estimates->of_heap[i], heap->live_bytes);
  }
}

/* ---- The whole snapshot. */

static hk_snapshot_t *reserve(size_t heap_count) {
  typedef struct {
    hakmem_stats_heap_t figures;
    hk_census_count_t count;
    hk_estimate_t estimate;
  } of_heap_t;
  static_assert(alignof(hk_snapshot_t) == alignof(of_heap_t), "what heaps have follows without a gap");
  size_t bytes = hk_align_up(sizeof(hk_snapshot_t) + heap_count * sizeof(of_heap_t), hk_os_page_size());
  hk_snapshot_t *snapshot = hk_os_reserve(bytes, hk_os_page_size());
  if (snapshot == NULL) return NULL;
  snapshot->mapped_bytes = bytes;
  snapshot->heap_count = heap_count;
  snapshot->heap = (hakmem_stats_heap_t *)(snapshot + 1);
  snapshot->heap_census.of = (hk_census_count_t *)(snapshot->heap + heap_count);
  snapshot->heap_census.count = heap_count;
  snapshot->estimates.of_heap = (hk_estimate_t *)(snapshot->heap_census.of + heap_count);
  snapshot->estimates.heap_count = heap_count;
  return snapshot;
}

hk_snapshot_t *hk_snapshot_take(void) {
  hk_snapshot_t *snapshot = reserve(hk_heap_total());
  if (snapshot == NULL) return NULL;
  hk_census_take(&snapshot->census, &snapshot->heap_census);
  snapshot->totals = hk_totals_take();
  hk_dirty_copy_learned(&snapshot->learned);
  hk_lock_acquire(hk_lock_space);
  snapshot->has_purge_thread = hk_purge_wakeup_has_thread_locked();
  hk_lock_release(hk_lock_space);
  fill_bands(snapshot);
  fill_heaps(snapshot);
  hk_named_figures_take(&snapshot->named, &snapshot->heap_census);
  fill_figures(snapshot);
  if (snapshot->has_estimates) fill_estimates_of_parts(snapshot);
  return snapshot;
}

void hk_snapshot_drop(hk_snapshot_t *snapshot) { (void)hk_os_unmap(snapshot, snapshot->mapped_bytes); }
