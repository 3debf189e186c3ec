/* api/report.c - L6. See report.h. Sums are taken here, from counters that are kept below. */
#include "api/report.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/learn_file.h"
#include "api/report_form.h"
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
#include "space/idle.h"
#include "space/meta.h"
#include "space/recording.h"
#include "space/region_map.h"
#include "space/superslab.h"

#define REPORT_BYTES (12 * HK_KIB)
#define DECISION_BYTES 256
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

/* ---- The summary: sections of rows. */

static void memory_section(hk_format_t *out, const hk_form_t *form, const totals_t *totals) {
  hk_os_memory_t memory = hk_os_memory();
  const hk_form_row_t rows[] = {
      {"resident", "of the whole process, now", memory.resident_bytes, true},
      {"peak", "of the whole process, highest so far", memory.peak_resident_bytes, true},
      {"in use", "address space of slabs that heaps and runs have", totals->superslab.in_use_bytes, true},
      {"idle", "free slabs that may be resident", totals->superslab.idle_bytes, true},
      {"superslabs", "address space of slabs", totals->superslab.mapped_bytes, true},
      {"big blocks", "address space of blocks above 1 MiB", totals->big.mapped_bytes, true},
      {"big cached", "address space of free ranges for such blocks", totals->big.cached_bytes, true},
      {"big idle", "of that, what may be resident", totals->big.idle_bytes, true},
      {"limit", "on memory, an option's or a control group's; 0: none", hk_idle_limit_bytes(), true},
      {"records", "address space of the allocator's own records", totals->record_bytes, true},
      {"mappings", "of the whole process; the system allows vm.max_map_count", hk_os_mapping_count(), false},
      {"heaps", "one each thread at the most, adopted by later threads", totals->heap_count, false},
      {"heaps idle", "whose threads have ended, and that wait for one", totals->heap_idle_count, false},
      {"heaps lost", "in use by other threads when the process forked", totals->heap_lost_count, false},
  };
  form->begin(out, "memory");
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) form->row(out, &rows[i]);
  form->end(out);
}

static void event_section(hk_format_t *out, const hk_form_t *form, const totals_t *totals) {
  form->begin(out, "events");
  for (unsigned i = 0; i < hk_stat_count; i++) {
    form->row(out, &(hk_form_row_t){hk_stat_text[i].name, hk_stat_text[i].help, totals->counter[i], false});
  }
  form->end(out);
}

#if HK_COUNT
static void cost_section(hk_format_t *out, const hk_form_t *form, const totals_t *totals) {
  form->begin(out, "costs");
  for (unsigned i = 0; i < hk_counter_count; i++) {
    form->row(out, &(hk_form_row_t){hk_counter_text[i].name, hk_counter_text[i].help, totals->cost[i], false});
  }
  form->end(out);
}
#else
static void cost_section(hk_format_t *out, const hk_form_t *form, const totals_t *totals) {
  (void)out;
  (void)form;
  (void)totals;
}
#endif

static void learning_section(hk_format_t *out, const hk_form_t *form) {
  hk_learn_t learned;
  hk_idle_copy_learned(&learned);
  const hk_form_row_t rows[] = {
      {"price", "of a MiB that is resident for a second, in ns of CPU", learned.price.ns_per_mib_second, false},
      {"break even ms", "giving back and wanting again costs as much as keeping for so long",
       hk_price_break_even_ms(&learned.price), false},
      {"timeout ms", "after which idle memory is given back where a purge thread runs", hk_learn_timeout_ms(&learned),
       false},
      {"epochs", "in which something was at stake", learned.epoch, false},
  };
  form->begin(out, "learning");
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) form->row(out, &rows[i]);
  form->text(out, "state", learned.is_fixed ? "fixed" : hk_learn_state_text(learned.state));
  form->begin_list(out, "decisions");
  for (uint64_t back = HK_LEARN_LOG_ENTRIES; back-- > 0;) {
    const hk_learn_decision_t *decision = hk_learn_log_get(&learned.log, back);
    if (decision == NULL) continue;
    char buffer[DECISION_BYTES];
    hk_format_t text;
    hk_format_init(&text, buffer, sizeof buffer);
    hk_learn_decision_text(decision, &text);
    form->item(out, buffer);
  }
  form->end_list(out);
  form->end(out);
}

static void print(hk_format_t *out, const hk_form_t *form) {
  totals_t totals = sum_up();
  memory_section(out, form, &totals);
  event_section(out, form, &totals);
  cost_section(out, form, &totals);
  learning_section(out, form);
}

/* ---- Where it goes. */

void hk_report_write(void) {
  char buffer[REPORT_BYTES];
  hk_format_t text;
  hk_format_init(&text, buffer, sizeof buffer);
  print(&text, &hk_form_lines);
  hk_os_write_stderr(text.text, text.length);
}

static void write_file(void) {
  char buffer[REPORT_BYTES];
  hk_format_t text;
  hk_format_init(&text, buffer, sizeof buffer);
  hk_form_json_begin(&text, SCHEMA);
  print(&text, &hk_form_json);
  hk_form_json_end(&text);
  hk_stats_file_write(text.text, text.length);
}

/* ---- When. */

/* Whether something may be said at the end, when the program may have closed its stderr and have a file there. */
static bool has_last_words(void) {
  return hk_option.stats || *hk_option.stats_file != '\0' || *hk_option.trace != '\0' || *hk_option.learn_file != '\0';
}

__attribute__((constructor)) static void prepare(void) {
  hk_option_load();
  if (has_last_words()) hk_os_keep_stderr();
  hk_stats_file_check();
  hk_learn_file_load();
  hk_recording_start(hk_idle_in_use(), hk_option.mode);
}

/* Late: what the program does in its own exit handlers is counted. */
__attribute__((destructor)) static void report_at_exit(void) {
  if (hk_option.stats) hk_report_write();
  if (hk_stats_file_is_wanted()) write_file();
  hk_learn_file_save();
  hk_recording_finish();
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
