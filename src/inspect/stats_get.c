/* inspect/stats_get.c - L8. The statistics as the structs of hakmem.h. A caller's struct may be shorter or longer than
 * the library's: the fields that both have are written, and the rest is zero. */
#include <errno.h>
#include <string.h>

#include "inspect/snapshot.h"

/* A struct begins with its version and the number of filled bytes. */
#define HEAD_BYTES (2 * sizeof(uint64_t))

static void copy_out(void *out, size_t size, const void *ours, size_t our_size) {
  size_t common = size < our_size ? size : our_size;
  memcpy(out, ours, common);
  memset((char *)out + common, 0, size - common);
}

int hakmem_stats_get(hakmem_stats_t *out, size_t size) {
  if (out == NULL || size < HEAD_BYTES) return EINVAL;
  hk_snapshot_t *snapshot = hk_snapshot_take();
  if (snapshot == NULL) return ENOMEM;
  copy_out(out, size, &snapshot->figures, sizeof snapshot->figures);
  hk_snapshot_drop(snapshot);
  return 0;
}

int hakmem_stats_get_events(hakmem_stats_events_t *out, size_t size) {
  if (out == NULL || size < HEAD_BYTES) return EINVAL;
  hk_totals_t totals = hk_totals_take();
  hakmem_stats_events_t events = {.version = HAKMEM_STATS_VERSION, .filled = sizeof events};
#define HK_STAT(name, unit, help) events.name = totals.counter[hk_stat_##name];
#include "policy/stat.def"
  copy_out(out, size, &events, sizeof events);
  return 0;
}

/* ---- Arrays. */

typedef struct {
  void *out;
  size_t size;
  size_t room;
} elements_t;

static bool is_sound(const void *out, size_t size, const size_t *count) {
  return count != NULL && size >= sizeof(uint64_t) && (out != NULL || *count == 0);
}

static void put(const elements_t *elements, size_t index, const void *ours, size_t our_size) {
  if (index >= elements->room) return;
  copy_out((char *)elements->out + index * elements->size, elements->size, ours, our_size);
}

int hakmem_stats_get_bands(hakmem_stats_band_t *out, size_t size, size_t *count) {
  if (!is_sound(out, size, count)) return EINVAL;
  hk_snapshot_t *snapshot = hk_snapshot_take();
  if (snapshot == NULL) return ENOMEM;
  elements_t elements = {out, size, *count};
  for (unsigned i = 0; i < HAKMEM_STATS_BANDS; i++) put(&elements, i, &snapshot->band[i], sizeof *out);
  *count = HAKMEM_STATS_BANDS;
  hk_snapshot_drop(snapshot);
  return 0;
}

int hakmem_stats_get_classes(hakmem_stats_class_t *out, size_t size, size_t *count) {
  if (!is_sound(out, size, count)) return EINVAL;
  hk_snapshot_t *snapshot = hk_snapshot_take();
  if (snapshot == NULL) return ENOMEM;
  elements_t elements = {out, size, *count};
  for (unsigned i = 0; i < snapshot->class_count; i++) put(&elements, i, &snapshot->of_class[i], sizeof *out);
  *count = snapshot->class_count;
  hk_snapshot_drop(snapshot);
  return 0;
}

int hakmem_stats_get_heaps(hakmem_stats_heap_t *out, size_t size, size_t *count) {
  if (!is_sound(out, size, count)) return EINVAL;
  hk_snapshot_t *snapshot = hk_snapshot_take();
  if (snapshot == NULL) return ENOMEM;
  elements_t elements = {out, size, *count};
  for (size_t i = 0; i < snapshot->heap_count; i++) put(&elements, i, &snapshot->heap[i], sizeof *out);
  *count = snapshot->heap_count;
  hk_snapshot_drop(snapshot);
  return 0;
}
