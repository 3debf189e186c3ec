/* space/timed_call.c - L3. See timed_call.h. */
#include "space/timed_call.h"

#include "base/arithmetic.h"
#include "os/os.h"
#include "space/dirty.h"

typedef bool hk_timed_call_t(void *start, size_t bytes);

/* Purging costs by the resident pages, making resident by the others. Memory of which less than half counts says too
 * little. */
static HK_COLD bool measure(hk_timed_call_t *call, hk_dirty_cost_t kind, void *start, size_t bytes) {
  size_t resident_bytes = hk_os_resident_bytes(start, bytes);
  size_t counted_bytes = kind == hk_dirty_cost_purge ? resident_bytes : bytes - resident_bytes;
  uint64_t before_ns = hk_os_thread_cpu_ns();
  bool is_done = call(start, bytes);
  uint64_t after_ns = hk_os_thread_cpu_ns();
  if (is_done && before_ns != 0 && counted_bytes >= bytes / 2)
    hk_dirty_note_cost(kind, counted_bytes, hk_subtract_to_zero(after_ns, before_ns));
  return is_done;
}

static bool is_measured(hk_dirty_cost_t kind, size_t bytes) {
  return bytes >= HK_COST_LEAST_BYTES && bytes <= HK_COST_MOST_BYTES && hk_dirty_wants_cost(kind);
}

bool hk_timed_call_prefault(void *start, size_t bytes) {
  if (!is_measured(hk_dirty_cost_fault, bytes)) return hk_os_prefault(start, bytes);
  return measure(hk_os_prefault, hk_dirty_cost_fault, start, bytes);
}

bool hk_timed_call_purge(void *start, size_t bytes) {
  if (!is_measured(hk_dirty_cost_purge, bytes)) return hk_os_purge(start, bytes);
  return measure(hk_os_purge, hk_dirty_cost_purge, start, bytes);
}

bool hk_timed_call_unmap(void *start, size_t bytes) {
  if (!is_measured(hk_dirty_cost_purge, bytes)) return hk_os_unmap(start, bytes);
  return measure(hk_os_unmap, hk_dirty_cost_purge, start, bytes);
}
