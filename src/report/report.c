/* report/report.c - L9. See report.h. All figures come from inspect/snapshot.h. */
#include "report/report.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/count.h"
#include "base/units.h"
#include "inspect/snapshot.h"
#include "policy/old_figure.h"
#include "policy/option.h"
#include "policy/stat.h"
#include "report/report_form.h"
#include "report/report_metrics.h"
#include "report/report_named.h"

#define DECISION_BYTES 256
#define NAME_BYTES 64
/* Version of the JSON form (docs/stats.schema.json): a reader tells by it whether it knows the form. */
#define SCHEMA 2

/* ---- Sections of rows. */

/* Replaces the underscores by spaces. */
static void name_in_words(char *words, const char *name) {
  size_t i = 0;
  for (; name[i] != '\0' && i + 1 < NAME_BYTES; i++) words[i] = name[i] == '_' ? ' ' : name[i];
  words[i] = '\0';
}

/* Programs may still read a figure by its earlier name. Parts have none in JSON: their sum is the resident memory. */
static const char *old_name(const hk_form_t *form, const char *section, const char *name) {
  bool is_told = form == &hk_form_json && strcmp(section, "parts") != 0;
  return is_told ? hk_old_figure_name(section, name) : NULL;
}

static void figure_row(hk_format_t *out, const hk_form_t *form, const hk_figure_text_t *figure, const char *name,
                       const hk_snapshot_t *snapshot) {
  char words[NAME_BYTES];
  name_in_words(words, name);
  bool is_bytes = figure->unit == hk_figure_BYTES;
  if (hk_figure_is_known(figure, snapshot)) {
    form->row(out, &(hk_form_row_t){words, figure->help, hk_figure_value(figure, &snapshot->figures), is_bytes});
  } else {
    form->unknown(out, words);
  }
}

/* Writes the figures of a section without its beginning and end: in JSON those of "process" stand outside braces. */
static void figure_rows(hk_format_t *out, const hk_form_t *form, const hk_snapshot_t *snapshot, const char *section) {
  for (const hk_figure_text_t *figure = hk_figures_of_process; *figure->name != '\0'; figure++) {
    if (strcmp(figure->section, section) != 0) continue;
    figure_row(out, form, figure, figure->name, snapshot);
    const char *old = old_name(form, section, figure->name);
    if (old != NULL) figure_row(out, form, figure, old, snapshot);
  }
}

static void section(hk_format_t *out, const hk_form_t *form, const hk_snapshot_t *snapshot, const char *name) {
  form->begin(out, name);
  figure_rows(out, form, snapshot, name);
  form->end(out);
}

static void event_section(hk_format_t *out, const hk_form_t *form, const hk_totals_t *totals) {
  form->begin(out, "events");
  for (unsigned i = 0; i < hk_stat_count; i++) {
    bool is_bytes = strcmp(hk_stat_text[i].unit, "bytes") == 0;
    hk_form_row_t row = {hk_stat_text[i].name, hk_stat_text[i].help, totals->counter[i], is_bytes};
    form->row(out, &row);
    row.name = old_name(form, "events", row.name);
    if (row.name != NULL) form->row(out, &row);
  }
  form->end(out);
}

#if HK_COUNT
static void cost_section(hk_format_t *out, const hk_form_t *form, const hk_totals_t *totals) {
  form->begin(out, "costs");
  for (unsigned i = 0; i < hk_counter_count; i++) {
    form->row(out, &(hk_form_row_t){hk_counter_text[i].name, hk_counter_text[i].help, totals->cost[i], false});
  }
  form->end(out);
}
#else
static void cost_section(hk_format_t *out, const hk_form_t *form, const hk_totals_t *totals) {
  (void)out;
  (void)form;
  (void)totals;
}
#endif

static void learning_section(hk_format_t *out, const hk_form_t *form, const hk_snapshot_t *snapshot) {
  const hk_learn_t *learned = &snapshot->learned;
  form->begin(out, "learning");
  figure_rows(out, form, snapshot, "learning");
  form->text(out, "state", learned->is_fixed ? "fixed" : hk_learn_state_text(learned->state));
  form->begin_list(out, "decisions");
  for (uint64_t back = HK_LEARN_LOG_ENTRIES; back-- > 0;) {
    const hk_learn_decision_t *decision = hk_learn_log_find(&learned->log, back);
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

static void option_section(hk_format_t *out, const hk_form_t *form) {
  form->begin(out, "options");
  const char *name;
  char buffer[HK_OPTION_TEXT_BYTES];
  hk_format_t value;
  hk_format_init(&value, buffer, sizeof buffer);
  for (unsigned i = 0; (name = hk_option_next_set(&i, &value)) != NULL; i++) {
    form->text(out, name, value.text);
    hk_format_init(&value, buffer, sizeof buffer);
  }
  form->end(out);
}

static void sections(hk_format_t *out, const hk_form_t *form, const hk_snapshot_t *snapshot) {
  section(out, form, snapshot, "memory");
  event_section(out, form, &snapshot->totals);
  cost_section(out, form, &snapshot->totals);
  learning_section(out, form, snapshot);
  section(out, form, snapshot, "parts");
  section(out, form, snapshot, "live");
  section(out, form, snapshot, "huge");
  section(out, form, snapshot, "guard");
  form->flag(out, "purge_thread", snapshot->has_purge_thread);
  option_section(out, form);
}

/* ---- Tables, as text. */

#define COLUMN_WIDTH 13

static size_t column(unsigned i) { return 2 + i * (size_t)COLUMN_WIDTH; }

static void cell(hk_format_t *out, const hk_figure_text_t *figure, const void *values) {
  uint64_t value = hk_figure_value(figure, values);
  if (!hk_figure_is_known_of(figure, values)) {
    hk_format_text(out, "?");
  } else if (figure->unit == hk_figure_WORD) {
    hk_format_text(out, hk_figure_word(figure, value));
  } else if (figure->unit == hk_figure_BYTES) {
    hk_format_bytes(out, value);
  } else {
    hk_format_decimal(out, value);
  }
}

/* Shortens the names that are longer than a column. */
static const char *heading_of(const char *name) {
  if (strcmp(name, "spans_nearly_empty") == 0) return "nearly_empty";
  if (strcmp(name, "requested_estimate") == 0) return "requested";
  return name;
}

static void table_head(hk_format_t *out, const char *name, const hk_figure_text_t *figures) {
  hk_format_print(out, "hakmem: %s\n", name);
  for (unsigned i = 0; *figures[i].name != '\0'; i++) {
    char words[NAME_BYTES];
    name_in_words(words, heading_of(figures[i].name));
    hk_format_pad(out, column(i));
    hk_format_text(out, words);
  }
  hk_format_text(out, "\n");
}

static void table_line(hk_format_t *out, const hk_figure_text_t *figures, const void *values) {
  for (unsigned i = 0; *figures[i].name != '\0'; i++) {
    hk_format_pad(out, column(i));
    cell(out, &figures[i], values);
  }
  hk_format_text(out, "\n");
}

/* A table of all figures of all heaps would be too wide and too long to read. It has these columns, in this order, for
 * the heaps with the most bytes in use. */
static const char *const heap_columns[] = {"number",     "state",    "live_blocks",        "live_bytes", "free_blocks",
                                           "free_bytes", "resident", "requested_estimate", "slabs",      "spare_slabs"};
#define HEAP_COLUMNS (sizeof heap_columns / sizeof heap_columns[0])
#define HEAP_LINES 16

static void choose_heap_columns(hk_figure_text_t chosen[HEAP_COLUMNS + 1]) {
  for (unsigned i = 0; i < HEAP_COLUMNS; i++) {
    for (const hk_figure_text_t *figure = hk_figures_of_heap; *figure->name != '\0'; figure++) {
      if (strcmp(figure->name, heap_columns[i]) == 0) chosen[i] = *figure;
    }
  }
  chosen[HEAP_COLUMNS] = (hk_figure_text_t){0};
}

/* Chooses the heaps with the most live bytes, in order; of equal ones the older first. Returns their number. */
static unsigned choose_heaps(const hakmem_stats_heap_t *chosen[HEAP_LINES], const hk_snapshot_t *snapshot) {
  unsigned count = 0;
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    const hakmem_stats_heap_t *heap = &snapshot->heap[i];
    unsigned at = count;
    for (; at > 0 && chosen[at - 1]->live_bytes < heap->live_bytes; at--) {
      if (at < HEAP_LINES) chosen[at] = chosen[at - 1];
    }
    if (at < HEAP_LINES) chosen[at] = heap;
    if (count < HEAP_LINES) count++;
  }
  return count;
}

static void heap_table(hk_format_t *out, const hk_snapshot_t *snapshot) {
  hk_figure_text_t columns[HEAP_COLUMNS + 1];
  const hakmem_stats_heap_t *chosen[HEAP_LINES];
  choose_heap_columns(columns);
  unsigned count = choose_heaps(chosen, snapshot);
  table_head(out, "heaps", columns);
  for (unsigned i = 0; i < count; i++) table_line(out, columns, chosen[i]);
  if (count < snapshot->heap_count)
    hk_format_print(out, "  and %u more with less in use\n", (uint64_t)(snapshot->heap_count - count));
}

static void write_text(hk_format_t *out, const hk_snapshot_t *snapshot) {
  sections(out, &hk_form_lines, snapshot);
  table_head(out, "bands", hk_figures_of_band);
  for (unsigned i = 0; i < HAKMEM_STATS_BANDS; i++) table_line(out, hk_figures_of_band, &snapshot->band[i]);
  table_head(out, "classes", hk_figures_of_class);
  for (unsigned i = 0; i < snapshot->class_count; i++) table_line(out, hk_figures_of_class, &snapshot->of_class[i]);
  hk_report_named_text(out, &snapshot->named);
  heap_table(out, snapshot);
}

/* ---- Elements, as JSON. */

static void element_value(hk_format_t *out, const hk_figure_text_t *figure, const void *values) {
  uint64_t value = hk_figure_value(figure, values);
  if (!hk_figure_is_known_of(figure, values)) {
    hk_format_text(out, "null");
  } else if (figure->unit == hk_figure_WORD) {
    hk_form_json_quote(out, hk_figure_word(figure, value));
  } else {
    hk_format_decimal(out, value);
  }
}

static void element(hk_format_t *out, const char *section, const hk_figure_text_t *figure, const void *values) {
  hk_format_text(out, "{");
  for (; *figure->name != '\0'; figure++) {
    hk_form_json_key(out, figure->name);
    element_value(out, figure, values);
    const char *old = hk_old_figure_name(section, figure->name);
    if (old == NULL) continue;
    hk_form_json_key(out, old);
    element_value(out, figure, values);
  }
  hk_format_text(out, "}");
}

/* Writes an object by the bands' names: the first figure of a band is its name. */
static void band_elements(hk_format_t *out, const hk_snapshot_t *snapshot) {
  hk_form_json.begin(out, "bands");
  for (unsigned i = 0; i < HAKMEM_STATS_BANDS; i++) {
    hk_form_json_key(out, hk_figure_word(hk_figures_of_band, i));
    element(out, "bands", hk_figures_of_band + 1, &snapshot->band[i]);
  }
  hk_form_json.end(out);
}

static void class_elements(hk_format_t *out, const hk_snapshot_t *snapshot) {
  hk_form_json.begin_list(out, "classes");
  for (unsigned i = 0; i < snapshot->class_count; i++) {
    hk_form_json_separate(out);
    element(out, "classes", hk_figures_of_class, &snapshot->of_class[i]);
  }
  hk_form_json.end_list(out);
}

/* Upper bound for one heap and the end of the report. */
#define MARGIN_BYTES (4 * HK_KIB)

/* Writes the newest heaps first, as many as fit: memory.heaps has their number. */
static void heap_elements(hk_format_t *out, const hk_snapshot_t *snapshot) {
  hk_form_json.begin_list(out, "heaps");
  for (size_t i = snapshot->heap_count; i-- > 0;) {
    if (!hk_format_has_room(out, MARGIN_BYTES)) break;
    hk_form_json_separate(out);
    element(out, "heaps", hk_figures_of_heap, &snapshot->heap[i]);
  }
  hk_form_json.end_list(out);
}

static void write_json(hk_format_t *out, const hk_snapshot_t *snapshot) {
  hk_form_json_begin(out, SCHEMA);
  figure_rows(out, &hk_form_json, snapshot, "process");
  sections(out, &hk_form_json, snapshot);
  band_elements(out, snapshot);
  class_elements(out, snapshot);
  hk_report_named_json(out, &snapshot->named);
  heap_elements(out, snapshot);
  hk_form_json_end(out);
}

static void write_openmetrics(hk_format_t *out, const hk_snapshot_t *snapshot) {
  hk_report_metrics(out, hk_metrics_openmetrics, snapshot);
}

static void write_prometheus(hk_format_t *out, const hk_snapshot_t *snapshot) {
  hk_report_metrics(out, hk_metrics_prometheus, snapshot);
}

/* ---- Whole reports. */

typedef void report_t(hk_format_t *out, const hk_snapshot_t *snapshot);

static void write_report(hk_format_t *out, report_t *report) {
  hk_snapshot_t *snapshot = hk_snapshot_take();
  if (snapshot == NULL) {
    hk_format_text(out, "hakmem: no statistics: the system refuses memory for them\n");
    return;
  }
  report(out, snapshot);
  hk_snapshot_drop(snapshot);
}

void hk_report_text(hk_format_t *out) { write_report(out, write_text); }
void hk_report_json(hk_format_t *out) { write_report(out, write_json); }
void hk_report_openmetrics(hk_format_t *out) { write_report(out, write_openmetrics); }
void hk_report_prometheus(hk_format_t *out) { write_report(out, write_prometheus); }
