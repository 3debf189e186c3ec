/* space/timed_call.c - L3. See timed_call.h. */
#include "space/timed_call.h"

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/cost.h"
#include "policy/option.h"
#include "policy/price.h"
#include "space/dirty.h"

/* Bits of the kinds that are to be timed. Written under hk_lock_space, and before the process has threads. */
static _Atomic(uint32_t) timed_kinds;

/* Guarded by hk_lock_space. */
static hk_cost_t cost[hk_timed_count];

/* ---- Costs. */

void hk_timed_call_allow(void) { hk_store_relaxed(&timed_kinds, (1u << hk_timed_count) - 1); }

static uint64_t cost_ns_locked(hk_timed_kind_t kind) {
  return hk_cost_ns(&cost[kind], kind == hk_timed_purge ? HK_PRICE_PURGE_NS : HK_PRICE_FAULT_NS);
}

uint64_t hk_timed_call_cost_ns(hk_timed_kind_t kind, unsigned *samples) {
  hk_lock_acquire(hk_lock_space);
  uint64_t ns = cost_ns_locked(kind);
  *samples = cost[kind].count;
  hk_lock_release(hk_lock_space);
  return ns;
}

static void use_costs_locked(uint64_t now_ms) {
  uint64_t purge_ns = cost_ns_locked(hk_timed_purge), fault_ns = cost_ns_locked(hk_timed_fault);
  bool is_near = hk_cost_is_near(purge_ns + fault_ns, HK_PRICE_PURGE_NS + HK_PRICE_FAULT_NS);
  hk_dirty_set_costs_locked(now_ms, is_near ? HK_PRICE_PURGE_NS : purge_ns, is_near ? HK_PRICE_FAULT_NS : fault_ns);
}

static void note_cost(hk_timed_kind_t kind, size_t bytes, uint64_t cpu_ns) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  hk_cost_add(&cost[kind], bytes, cpu_ns);
  if (hk_cost_is_known(&cost[kind])) {
    hk_store_relaxed(&timed_kinds, hk_load_relaxed(&timed_kinds) & ~(1u << kind));
    use_costs_locked(now_ms);
  }
  hk_lock_release(hk_lock_space);
}

/* ---- Calls. */

typedef bool timed_call_t(void *start, size_t bytes);

/* Makes a call, measures it and returns its result. A purge costs time for each page that was resident, a prefault for
 * each page that was not. Where less than half of the memory is of that kind, the time says too little: it is not
 * noted. */
static HK_COLD bool measure(timed_call_t *call, hk_timed_kind_t kind, void *start, size_t bytes) {
  size_t resident_bytes = hk_os_resident_bytes(start, bytes);
  size_t counted_bytes = kind == hk_timed_purge ? resident_bytes : bytes - resident_bytes;
  uint64_t before_ns = hk_os_thread_cpu_ns();
  bool is_done = call(start, bytes);
  uint64_t after_ns = hk_os_thread_cpu_ns();
  if (is_done && before_ns != 0 && counted_bytes >= bytes / 2)
    note_cost(kind, counted_bytes, hk_subtract_to_zero(after_ns, before_ns));
  return is_done;
}

static bool is_measured(hk_timed_kind_t kind, size_t bytes) {
  if (bytes < HK_COST_MIN_BYTES || bytes > HK_COST_MAX_BYTES) return false;
  return HK_UNLIKELY((hk_load_relaxed(&timed_kinds) >> kind & 1) != 0) && hk_option_is_learning();
}

bool hk_timed_call_prefault(void *start, size_t bytes) {
  if (!is_measured(hk_timed_fault, bytes)) return hk_os_prefault(start, bytes);
  return measure(hk_os_prefault, hk_timed_fault, start, bytes);
}

bool hk_timed_call_purge(void *start, size_t bytes) {
  if (!is_measured(hk_timed_purge, bytes)) return hk_os_purge(start, bytes);
  return measure(hk_os_purge, hk_timed_purge, start, bytes);
}

bool hk_timed_call_unmap(void *start, size_t bytes) {
  if (!is_measured(hk_timed_purge, bytes)) return hk_os_unmap(start, bytes);
  return measure(hk_os_unmap, hk_timed_purge, start, bytes);
}
