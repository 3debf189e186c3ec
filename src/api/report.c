/* api/report.c - L6. See report.h. Sums are taken here, from counters that are kept below. */
#include "api/report.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/count.h"
#include "base/format.h"
#include "base/units.h"
#include "hakmem/hakmem.h"
#include "heap/heap.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/stat.h"
#include "space/big.h"
#include "space/meta.h"
#include "space/region_map.h"
#include "space/superslab.h"

#define REPORT_BYTES (8 * HK_KIB)
#define VALUE_COLUMN 22
#define HELP_COLUMN 36

typedef struct {
  uint64_t counter[hk_stat_count];
  hk_superslab_usage_t superslab;
  hk_big_usage_t big;
  size_t record_bytes; /* address space of our own records */
  size_t heap_count;
  size_t heap_lost_count;
} totals_t;

static totals_t sum_up(void) {
  totals_t totals = {.superslab = hk_superslab_usage(),
                     .big = hk_big_usage(),
                     .record_bytes = hk_meta_mapped_bytes() + hk_region_map_mapped_bytes(),
                     .heap_lost_count = hk_heap_lost_count()};
  hk_stat_sum(totals.counter, &hk_stat_process);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    hk_stat_sum(totals.counter, &heap->stat);
    totals.heap_count++;
  }
  return totals;
}

/* ---- Text. */

static void bytes_line(hk_format_t *text, const char *name, uint64_t bytes, const char *help) {
  hk_format_print(text, "  %s", name);
  hk_format_pad(text, VALUE_COLUMN);
  hk_format_bytes(text, bytes);
  hk_format_pad(text, HELP_COLUMN);
  hk_format_print(text, "%s\n", help);
}

static void count_line(hk_format_t *text, const char *name, uint64_t count, const char *help) {
  hk_format_print(text, "  %s", name);
  hk_format_pad(text, VALUE_COLUMN);
  hk_format_decimal(text, count);
  hk_format_pad(text, HELP_COLUMN);
  hk_format_print(text, "%s\n", help);
}

static void memory_section(hk_format_t *text, const totals_t *totals) {
  hk_os_memory_t memory = hk_os_memory();
  hk_format_text(text, "hakmem: memory\n");
  bytes_line(text, "resident", memory.resident_bytes, "of the whole process, now");
  bytes_line(text, "peak", memory.peak_resident_bytes, "of the whole process, highest so far");
  bytes_line(text, "in use", totals->superslab.in_use_bytes, "address space of slabs that heaps and runs have");
  bytes_line(text, "idle", totals->superslab.idle_bytes, "free slabs that may be resident");
  bytes_line(text, "superslabs", totals->superslab.mapped_bytes, "address space of slabs");
  bytes_line(text, "big blocks", totals->big.mapped_bytes, "address space of blocks above 1 MiB");
  bytes_line(text, "records", totals->record_bytes, "address space of the allocator's own records");
  count_line(text, "heaps", totals->heap_count, "one each thread at the most, adopted by later threads");
  if (totals->heap_lost_count > 0) {
    count_line(text, "heaps lost", totals->heap_lost_count, "in use by other threads when the process forked");
  }
}

#if HK_COUNT
static void counting_build_section(hk_format_t *text) {
  hk_format_text(text, "hakmem: costs\n");
  for (unsigned i = 0; i < hk_counter_count; i++) {
    count_line(text, hk_counter_text[i].name, hk_load_relaxed(&hk_counter[i]), hk_counter_text[i].help);
  }
}
#else
static void counting_build_section(hk_format_t *text) { (void)text; }
#endif

void hk_report_write(void) {
  char buffer[REPORT_BYTES];
  hk_format_t text;
  hk_format_init(&text, buffer, sizeof buffer);
  totals_t totals = sum_up();
  memory_section(&text, &totals);
  hk_format_text(&text, "hakmem: events\n");
  for (unsigned i = 0; i < hk_stat_count; i++) {
    count_line(&text, hk_stat_text[i].name, totals.counter[i], hk_stat_text[i].help);
  }
  counting_build_section(&text);
  hk_os_write_stderr(text.text, text.length);
}

/* Late: what the program does in its own exit handlers is counted. */
__attribute__((destructor)) static void report_at_exit(void) {
  if (hk_option.stats) hk_report_write();
}

void hakmem_malloc_stats(void) { hk_report_write(); }

/* ---- XML. */

int hakmem_malloc_info(int options, FILE *stream) {
  if (options != 0) return EINVAL;
  totals_t totals = sum_up();
  fprintf(stream, "<malloc version=\"hakmem-%s\">\n", hakmem_version());
  fprintf(stream, "<superslabs count=\"%zu\" mapped=\"%zu\" in_use=\"%zu\" idle=\"%zu\"/>\n",
          totals.superslab.superslab_count, totals.superslab.mapped_bytes, totals.superslab.in_use_bytes,
          totals.superslab.idle_bytes);
  fprintf(stream, "<big count=\"%zu\" mapped=\"%zu\"/>\n", totals.big.count, totals.big.mapped_bytes);
  fprintf(stream, "<records mapped=\"%zu\"/>\n", totals.record_bytes);
  fprintf(stream, "<heaps count=\"%zu\" lost=\"%zu\"/>\n", totals.heap_count, totals.heap_lost_count);
  for (unsigned i = 0; i < hk_stat_count; i++) {
    fprintf(stream, "<event name=\"%s\" value=\"%llu\"/>\n", hk_stat_text[i].name,
            (unsigned long long)totals.counter[i]);
  }
  return fprintf(stream, "</malloc>\n") < 0 ? EIO : 0;
}

/* ---- glibc's structs. */

struct mallinfo2 hakmem_mallinfo2(void) {
  totals_t totals = sum_up();
  return (struct mallinfo2){
      .arena = totals.superslab.mapped_bytes,
      .ordblks = totals.superslab.idle_bytes / HK_SLAB_BYTES,
      .hblks = totals.big.count,
      .hblkhd = totals.big.mapped_bytes,
      .uordblks = totals.superslab.in_use_bytes,
      .fordblks = totals.superslab.mapped_bytes - totals.superslab.in_use_bytes,
      .keepcost = totals.superslab.idle_bytes,
  };
}

static int saturate(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

struct mallinfo hakmem_mallinfo(void) {
  struct mallinfo2 wide = hakmem_mallinfo2();
  return (struct mallinfo){
      .arena = saturate(wide.arena),
      .ordblks = saturate(wide.ordblks),
      .hblks = saturate(wide.hblks),
      .hblkhd = saturate(wide.hblkhd),
      .uordblks = saturate(wide.uordblks),
      .fordblks = saturate(wide.fordblks),
      .keepcost = saturate(wide.keepcost),
  };
}
