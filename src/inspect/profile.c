/* inspect/profile.c - L8. See profile.h. */
#include "inspect/profile.h"

#include "api/instruments.h"
#include "base/arithmetic.h"
#include "base/atomic.h"
#include "heap/detach.h"
#include "heap/named.h"
#include "heap/part.h"
#include "heap/sample_mark.h"
#include "inspect/probe.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/safety.h"
#include "policy/sampling.h"
#include "space/region_map.h"
#include "unwind/rule_cache.h"
#include "unwind/site_sums.h"
#include "unwind/unwind_cache.h"

#define NS_PER_MS UINT64_C(1000000)

/* True while the thread is inside the profile. A signal handler that allocates then is served without a sample. */
static HK_THREAD_LOCAL _Atomic(bool) is_inside;

/* Any thread adds to it. */
static _Atomic(uint64_t) lost;

/* ---- Start and stop. */

/* The run that began last. All fields are 0 before the first run. */
static struct {
  _Atomic(uint64_t) rate, unix_ms, start_ms;
  _Atomic(uint64_t) number; /* from 1 */
  _Atomic(uint64_t) end_ms; /* 0: the run goes on */
} run;

/* Begins the figures of a run. A sample that another thread allocates meanwhile counts as in use, and not as
 * allocated. */
static void begin_run(uint64_t rate) {
  hk_store_relaxed(&run.unix_ms, hk_os_unix_ms());
  hk_store_relaxed(&run.start_ms, hk_os_coarse_ms());
  hk_store_relaxed(&run.end_ms, 0);
  hk_store_relaxed(&run.rate, rate);
  hk_site_sums_begin_all();
}

bool hk_profile_start(uint64_t rate) {
#if HK_SAFETY
  if (rate == 0) rate = hk_option.profile_rate;
  rate = hk_smaller(rate, HK_SAMPLING_RATE_MAX);
  if (!hk_sampling_begin(rate)) return false;
  (void)hk_add_relaxed(&run.number, 1);
  begin_run(rate);
  hk_detach_loosen_all(); /* a thread that allocates and frees the same blocks would not notice */
  return true;
#else
  static const char message[] = "hakmem: " HK_PROFILE_ABSENT "\n";
  (void)rate;
  hk_os_write_stderr(message, sizeof message - 1);
  return false;
#endif
}

bool hk_profile_stop(void) {
  if (!hk_sampling_end()) return false;
  hk_store_relaxed(&run.end_ms, hk_os_coarse_ms());
  return true;
}

uint64_t hk_profile_run(void) { return hk_load_relaxed(&run.number); }

void hk_profile_begin_child(void) {
  if (hk_profile_is_running()) begin_run(hk_profile_rate());
}

hk_profile_facts_t hk_profile_facts(void) {
  uint64_t end_ms = hk_load_relaxed(&run.end_ms), now_ms = hk_os_coarse_ms();
  if (end_ms == 0) end_ms = now_ms;
  uint64_t since_end_ms = hk_subtract_to_zero(now_ms, end_ms);
  return (hk_profile_facts_t){
      .rate_bytes = hk_load_relaxed(&run.rate),
      .time_ns = hk_load_relaxed(&run.unix_ms) * NS_PER_MS,
      /* By the current clock: the clock may have been set since the run began, and monitoring systems refuse times that
       * are hours old. */
      .taken_ns = hk_subtract_to_zero(hk_os_unix_ms(), since_end_ms) * NS_PER_MS,
      .duration_ns = hk_subtract_to_zero(end_ms, hk_load_relaxed(&run.start_ms)) * NS_PER_MS,
  };
}

bool hk_profile_is_running(void) { return hk_profile_rate() != 0; }

uint64_t hk_profile_rate(void) { return hk_sampling_rate_of(hk_load_relaxed(&hk_sampling_state)); }

hk_profile_sums_t hk_profile_sums(void) {
  hk_profile_sums_t sums = {.lost = hk_load_relaxed(&lost)};
  for (const hk_site_t *site = hk_site_next(NULL); site != NULL; site = hk_site_next(site)) {
    sums.samples += hk_load_relaxed(&site->allocated.samples);
  }
  return sums;
}

/* ---- Samples. */

/* Returns whether the thread was inside already, for go_out. */
HK_INLINE bool go_in(void) {
  bool was_inside = hk_sample_hook_is_inside();
  hk_store_relaxed(&is_inside, true);
  hk_keep_order();
  return was_inside;
}
HK_INLINE void go_out(bool was_inside) {
  hk_keep_order();
  hk_store_relaxed(&is_inside, was_inside);
}

hk_site_t *hk_sample_hook_site(void) {
  bool was_inside = go_in();
  hk_site_t *site = hk_unwind_cache_site();
  go_out(was_inside);
  return site;
}

void hk_sample_hook_forget_code(void) { hk_rule_cache_forget(); }

bool hk_sample_hook_is_inside(void) { return hk_load_relaxed(&is_inside); }

/* A block in a guard slot has no descriptor: it belongs to the named heap or tag that the thread is switched to. */
static hk_site_t *labelled(hk_site_t *site, const hk_sample_t *sample) {
  const hk_slab_t *slab = hk_slab_of((const void *)(sample->address - sample->offset));
  hk_named_t *named = hk_slab_state(slab) == hk_slab_none ? hk_part_current() : hk_named_of_slab(slab);
  if (HK_LIKELY(named == NULL)) return site;
  return hk_site_with_label(site, named->name, hk_named_kind(named) == hk_named_tag);
}

static bool enter(hk_sample_t *sample) {
  if (sample->weight.weight_q16 == 0) return hk_sample_enter(sample);
  sample->site = labelled(hk_unwind_cache_site(), sample);
  if (!hk_sample_enter(sample)) {
    (void)hk_add_relaxed(&lost, 1);
    return false;
  }
  hk_site_sums_count_alloc(sample->site, &sample->weight);
  hk_probe_alloc(sample->address, &sample->weight);
  return true;
}

void hk_sample_hook_prefetch(void) { hk_unwind_cache_prefetch(); }

bool hk_sample_hook_note(uintptr_t address, size_t offset, size_t requested, size_t bytes, uint64_t weight_q16) {
  hk_sample_t sample = {
      .address = address,
      .offset = offset,
      .weight = {.requested_bytes = requested, .block_bytes = bytes, .weight_q16 = weight_q16},
      .born_ms = hk_os_coarse_ms(),
  };
  bool was_inside = go_in();
  bool entered = enter(&sample);
  if (entered && offset != 0) hk_sample_mark_set((void *)(address - offset));
  go_out(was_inside);
  return entered;
}

static void forget_if_named(const hk_sample_t *sample, void *context) {
  const hk_slab_t *slab = hk_slab_of((const void *)(sample->address - sample->offset));
  if (hk_named_of_slab(slab) == context) (void)hk_sample_hook_forget(sample->address, true);
}

void hk_sample_hook_forget_named(const hk_named_t *named) { hk_sample_visit(forget_if_named, (void *)named); }

bool hk_sample_hook_forget(uintptr_t address, bool is_freed) {
  hk_sample_t sample;
  if (!hk_sample_leave(address, is_freed, &sample)) return false;
  if (sample.offset != 0) hk_sample_mark_clear((void *)(address - sample.offset));
  if (sample.weight.weight_q16 == 0) return true;
  hk_probe_free(address);
  hk_site_sums_count_free(sample.site, &sample.weight, hk_subtract_to_zero(hk_os_coarse_ms(), sample.born_ms));
  return true;
}
