/* api/report.c - L6. See report.h. Sums are taken here, from counters that are kept below. */
#include "api/report.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/stats_file.h"
#include "base/count.h"
#include "base/format.h"
#include "base/units.h"
#include "hakmem/hakmem.h"
#include "heap/heap.h"
#include "os/new_file.h"
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
/* Of the JSON form. A reader of another version knows what it does not know. */
#define SCHEMA 1

typedef struct {
#if HK_COUNT
  uint64_t cost[hk_counter_count];
#endif
  uint64_t counter[hk_stat_count];
  hk_superslab_usage_t superslab;
  hk_big_usage_t big;
  size_t record_bytes; /* address space of our own records */
  size_t heap_count;
  size_t heap_idle_count;
  size_t heap_lost_count;
} totals_t;

static totals_t sum_up(void) {
  totals_t totals = {.superslab = hk_superslab_usage(),
                     .big = hk_big_usage(),
                     .record_bytes = hk_meta_mapped_bytes() + hk_region_map_mapped_bytes(),
                     .heap_idle_count = hk_heap_count(hk_heap_idle),
                     .heap_lost_count = hk_heap_count(hk_heap_lost)};
#if HK_COUNT
  hk_count_sum(totals.cost);
#endif
  hk_stat_sum(totals.counter, &hk_stat_process);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    hk_stat_sum(totals.counter, &heap->stat);
    totals.heap_count++;
  }
  return totals;
}

/* ---- The summary: sections of rows, in one of two forms. */

typedef struct {
  const char *name; /* words; in JSON joined by underscores */
  const char *help;
  uint64_t value;
  bool is_bytes; /* for readers a number with a unit; programs get every number whole */
} row_t;

typedef struct {
  void (*begin)(hk_format_t *out, const char *section);
  void (*row)(hk_format_t *out, const row_t *row);
  void (*end)(hk_format_t *out);
} form_t;

static void memory_section(hk_format_t *out, const form_t *form, const totals_t *totals) {
  hk_os_memory_t memory = hk_os_memory();
  const row_t rows[] = {
      {"resident", "of the whole process, now", memory.resident_bytes, true},
      {"peak", "of the whole process, highest so far", memory.peak_resident_bytes, true},
      {"in use", "address space of slabs that heaps and runs have", totals->superslab.in_use_bytes, true},
      {"idle", "free slabs that may be resident", totals->superslab.idle_bytes, true},
      {"superslabs", "address space of slabs", totals->superslab.mapped_bytes, true},
      {"big blocks", "address space of blocks above 1 MiB", totals->big.mapped_bytes, true},
      {"big cached", "address space of free ranges for such blocks", totals->big.cached_bytes, true},
      {"big idle", "of that, what may be resident", totals->big.idle_bytes, true},
      {"records", "address space of the allocator's own records", totals->record_bytes, true},
      {"heaps", "one each thread at the most, adopted by later threads", totals->heap_count, false},
      {"heaps idle", "whose threads have ended, and that wait for one", totals->heap_idle_count, false},
      {"heaps lost", "in use by other threads when the process forked", totals->heap_lost_count, false},
  };
  form->begin(out, "memory");
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) form->row(out, &rows[i]);
  form->end(out);
}

static void event_section(hk_format_t *out, const form_t *form, const totals_t *totals) {
  form->begin(out, "events");
  for (unsigned i = 0; i < hk_stat_count; i++) {
    form->row(out, &(row_t){hk_stat_text[i].name, hk_stat_text[i].help, totals->counter[i], false});
  }
  form->end(out);
}

#if HK_COUNT
static void cost_section(hk_format_t *out, const form_t *form, const totals_t *totals) {
  form->begin(out, "costs");
  for (unsigned i = 0; i < hk_counter_count; i++) {
    form->row(out, &(row_t){hk_counter_text[i].name, hk_counter_text[i].help, totals->cost[i], false});
  }
  form->end(out);
}
#else
static void cost_section(hk_format_t *out, const form_t *form, const totals_t *totals) {
  (void)out;
  (void)form;
  (void)totals;
}
#endif

static void print(hk_format_t *out, const form_t *form) {
  totals_t totals = sum_up();
  memory_section(out, form, &totals);
  event_section(out, form, &totals);
  cost_section(out, form, &totals);
}

/* ---- Text. */

static void begin_lines(hk_format_t *out, const char *section) { hk_format_print(out, "hakmem: %s\n", section); }

static void line(hk_format_t *out, const row_t *row) {
  hk_format_print(out, "  %s", row->name);
  hk_format_pad(out, VALUE_COLUMN);
  if (row->is_bytes) {
    hk_format_bytes(out, row->value);
  } else {
    hk_format_decimal(out, row->value);
  }
  hk_format_pad(out, HELP_COLUMN);
  hk_format_print(out, "%s\n", row->help);
}

static void end_lines(hk_format_t *out) { (void)out; }

void hk_report_write(void) {
  static const form_t lines = {begin_lines, line, end_lines};
  char buffer[REPORT_BYTES];
  hk_format_t text;
  hk_format_init(&text, buffer, sizeof buffer);
  print(&text, &lines);
  hk_os_write_stderr(text.text, text.length);
}

/* ---- JSON. Names are our own: nothing in them must be quoted. */

/* The key of what follows, after a comma unless it is the first in its braces. */
static void key(hk_format_t *out, const char *name) {
  hk_format_text(out, out->text[out->length - 1] == '{' ? "\"" : ", \"");
  for (; *name != '\0'; name++) {
    char character[2] = {*name == ' ' ? '_' : *name, '\0'};
    hk_format_text(out, character);
  }
  hk_format_text(out, "\": ");
}

static void begin_object(hk_format_t *out, const char *section) {
  key(out, section);
  hk_format_text(out, "{");
}

static void member(hk_format_t *out, const row_t *row) {
  key(out, row->name);
  hk_format_decimal(out, row->value);
}

static void end_object(hk_format_t *out) { hk_format_text(out, "}"); }

static void write_file(void) {
  static const form_t json = {begin_object, member, end_object};
  char buffer[REPORT_BYTES];
  hk_format_t text;
  hk_format_init(&text, buffer, sizeof buffer);
  hk_format_text(&text, "{");
  member(&text, &(row_t){.name = "schema", .value = SCHEMA});
  key(&text, "version");
  hk_format_print(&text, "\"%s\"", hakmem_version());
  member(&text, &(row_t){.name = "pid", .value = hk_os_process_id()});
  print(&text, &json);
  hk_format_text(&text, "}\n");
  hk_stats_file_write(text.text, text.length);
}

/* ---- When. */

__attribute__((constructor)) static void prepare(void) {
  hk_option_load();
  if (hk_option.stats) hk_os_keep_stderr();
  hk_stats_file_check();
}

/* Late: what the program does in its own exit handlers is counted. */
__attribute__((destructor)) static void report_at_exit(void) {
  if (hk_option.stats) hk_report_write();
  if (hk_stats_file_is_wanted()) write_file();
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
  fprintf(stream, "<heaps count=\"%zu\" idle=\"%zu\" lost=\"%zu\"/>\n", totals.heap_count, totals.heap_idle_count,
          totals.heap_lost_count);
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
