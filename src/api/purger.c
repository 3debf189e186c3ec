/* api/purger.c - L6. See purger.h. */
#include "api/purger.h"

#include "api/reclaim.h"
#include "heap/heap.h"
#include "os/os.h"
#include "policy/option.h"
#include "space/idle.h"
#include "space/surplus.h"

/* Where threads cannot be counted, those that have a heap are: which the purge thread has not. */
static bool has_threads(unsigned count, unsigned of_ours) {
  unsigned threads = hk_os_thread_count();
  return threads > 0 ? threads >= count + of_ours : hk_heap_count(hk_heap_attached) >= count;
}

/* Beside the purge thread. Two, for the first one may have ended: it is counted until the process ends, and the process
 * ends with the last of the others. */
static bool has_company(void) { return has_threads(2, 1); }

/* What the heaps without a thread keep for the next one is idle too, once in each time of quiet. */
static void tidy_when_quiet(uint64_t now_ms, uint64_t *tidied_ms) {
  uint64_t since_ms;
  if (!hk_idle_is_quiet(now_ms, &since_ms) || since_ms == *tidied_ms) return;
  *tidied_ms = since_ms;
  hk_reclaim_idle_heaps();
  hk_idle_stay_quiet(since_ms);
}

static void run(void) {
  uint64_t tidied_ms = UINT64_MAX;
  hk_bell_hear(true);
  while (has_company()) {
    uint32_t word = hk_load_relaxed(&hk_bell_word); /* before the visit, after which the bell may ring */
    uint64_t now_ms = hk_os_coarse_ms();
    tidy_when_quiet(now_ms, &tidied_ms);
    uint64_t wait_ms = hk_surplus_visit(now_ms);
    hk_os_wait_for((const uint32_t *)&hk_bell_word, word, wait_ms);
  }
  hk_bell_hear(false);
  (void)hk_surplus_visit(hk_os_coarse_ms()); /* by the limit for those who have nobody to come back */
  hk_bell_give_up();
}

void hk_purger_consider_slow(void) {
  if (!hk_bell_is_allowed()) return;
  hk_store_relaxed(&hk_bell_is_wanted, false); /* first: creating a thread allocates */
  if (hk_option.purge_thread && has_threads(2, 0) && hk_bell_claim()) {
    if (hk_os_thread_start("hakmem-purge", run)) return;
    hk_bell_give_up();
  }
  hk_bell_decline(hk_os_coarse_ms());
}
