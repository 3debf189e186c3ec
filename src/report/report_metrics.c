/* report/report_metrics.c - L9. See report_metrics.h.
 *
 * In OpenMetrics 1.0 a family of counters has a name without `_total`, and its samples have one with it. Units and the
 * end of the text are explicit. In the older format the family has the name of its samples, and there are no units and
 * no end.
 */
#include "report/report_metrics.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/text.h"
#include "policy/old_figure.h"
#include "report/report_named.h"

#define NAME_BYTES 128
#define LABEL_BYTES 32

/* A family of metrics. */
typedef struct {
  const char *type; /* "gauge", "counter", "unknown", "info" */
  const char *help;
  hk_figure_unit_t unit;
  char name[NAME_BYTES]; /* with the unit, without `_total` */
} family_t;

typedef struct {
  hk_format_t *out;
  bool is_openmetrics;
} writer_t;

/* ---- Names. */

static const char *suffix_of(hk_figure_unit_t unit) {
  return unit == hk_figure_BYTES ? "_bytes" : unit == hk_figure_MS ? "_seconds" : "";
}

/* Names the family in base units: seconds, not milliseconds. */
static void name_family(family_t *family, const char *group, const char *name) {
  hk_format_t text;
  hk_format_init(&text, family->name, sizeof family->name);
  hk_format_print(&text, "hakmem_%s%s%s", group, *group != '\0' ? "_" : "", name);
  if (family->unit == hk_figure_MS && hk_text_ends(text.text, "_ms")) text.text[text.length -= 3] = '\0';
  const char *suffix = suffix_of(family->unit);
  if (!hk_text_ends(text.text, suffix)) hk_format_text(&text, suffix);
}

bool hk_report_metrics_is_ours(const char *beginning) { return hk_text_after(beginning, "# TYPE hakmem_") != NULL; }

/* ---- Families and samples. */

static bool is_counter(const family_t *family) { return strcmp(family->type, "counter") == 0; }

static void begin_family(const writer_t *writer, const family_t *family) {
  hk_format_t *out = writer->out;
  const char *total = is_counter(family) && !writer->is_openmetrics ? "_total" : "";
  bool is_unknown = strcmp(family->type, "unknown") == 0 && !writer->is_openmetrics;
  hk_format_print(out, "# TYPE %s%s %s\n", family->name, total, is_unknown ? "untyped" : family->type);
  if (writer->is_openmetrics && *suffix_of(family->unit) != '\0')
    hk_format_print(out, "# UNIT %s %s\n", family->name, suffix_of(family->unit) + 1);
  hk_format_print(out, "# HELP %s%s %s\n", family->name, total, family->help);
}

static void write_value(hk_format_t *out, hk_figure_unit_t unit, uint64_t value) {
  if (unit != hk_figure_MS) {
    hk_format_decimal(out, value);
    return;
  }
  char thousandths[] = {(char)('0' + value / 100 % 10), (char)('0' + value / 10 % 10), (char)('0' + value % 10), '\0'};
  hk_format_print(out, "%u.%s", value / 1000, thousandths);
}

/* `labels` is in braces, or empty. */
static void write_sample(const writer_t *writer, const family_t *family, const char *labels, uint64_t value) {
  hk_format_print(writer->out, "%s%s%s ", family->name, is_counter(family) ? "_total" : "", labels);
  write_value(writer->out, family->unit, value);
  hk_format_text(writer->out, "\n");
}

/* ---- Contents. */

static void write_version(const writer_t *writer) {
  family_t family = {.type = writer->is_openmetrics ? "info" : "gauge", .help = "The library's version."};
  const char *suffix = writer->is_openmetrics ? "" : "_info";
  hk_format_t name;
  hk_format_init(&name, family.name, sizeof family.name);
  hk_format_print(&name, "hakmem_build%s", suffix);
  begin_family(writer, &family);
  hk_format_print(writer->out, "hakmem_build_info{version=\"%s\"} 1\n", hakmem_version());
}

/* A family of one sample; nothing when `name` is NULL. */
static void write_single(const writer_t *writer, family_t *family, const char *group, const char *name,
                         uint64_t value) {
  if (name == NULL) return;
  name_family(family, group, name);
  begin_family(writer, family);
  write_sample(writer, family, "", value);
}

static void write_process(const writer_t *writer, const hk_snapshot_t *snapshot) {
  for (const hk_figure_text_t *figure = hk_figures_of_process; *figure->name != '\0'; figure++) {
    if (!hk_figure_is_known(figure, snapshot)) continue;
    uint64_t value = hk_figure_value(figure, &snapshot->figures);
    family_t family = {.type = "gauge", .help = figure->help, .unit = figure->unit};
    write_single(writer, &family, figure->section, figure->name, value);
    write_single(writer, &family, figure->section, hk_old_figure_name(figure->section, figure->name), value);
  }
}

static void write_events(const writer_t *writer, const hk_snapshot_t *snapshot) {
  for (unsigned i = 0; i < hk_stat_count; i++) {
    bool is_bytes = strcmp(hk_stat_text[i].unit, "bytes") == 0;
    family_t family = {
        .type = "counter", .help = hk_stat_text[i].help, .unit = is_bytes ? hk_figure_BYTES : hk_figure_COUNT};
    write_single(writer, &family, "", hk_stat_text[i].name, snapshot->totals.counter[i]);
    write_single(writer, &family, "", hk_old_figure_name("events", hk_stat_text[i].name), snapshot->totals.counter[i]);
  }
}

#if HK_COUNT
static void write_costs(const writer_t *writer, const hk_snapshot_t *snapshot) {
  for (unsigned i = 0; i < hk_counter_count; i++) {
    family_t family = {.type = "unknown", .help = hk_counter_text[i].help, .unit = hk_figure_COUNT};
    write_single(writer, &family, "cost", hk_counter_text[i].name, snapshot->totals.cost[i]);
  }
}
#else
static void write_costs(const writer_t *writer, const hk_snapshot_t *snapshot) {
  (void)writer;
  (void)snapshot;
}
#endif

/* Writes the sample of one element, which a label names. */
static void write_labelled(const writer_t *writer, const family_t *family, const char *label, const char *word,
                           uint64_t number, uint64_t value) {
  char buffer[LABEL_BYTES];
  hk_format_t labels;
  hk_format_init(&labels, buffer, sizeof buffer);
  hk_format_print(&labels, "{%s=\"", label);
  if (word != NULL) {
    hk_format_text(&labels, word);
  } else {
    hk_format_decimal(&labels, number);
  }
  hk_format_text(&labels, "\"}");
  write_sample(writer, family, buffer, value);
}

/* A figure of many elements. The family's head is written before the first element whose value is known. */
typedef struct {
  const writer_t *writer;
  const hk_figure_text_t *figure;
  family_t family;
  bool is_begun;
} elements_t;

static elements_t elements_of(const writer_t *writer, const char *group, const hk_figure_text_t *figure,
                              const char *name) {
  elements_t elements = {
      .writer = writer, .figure = figure, .family = {.type = "gauge", .help = figure->help, .unit = figure->unit}};
  name_family(&elements.family, group, name);
  return elements;
}

static void write_element(elements_t *elements, const char *label, const char *word, uint64_t number,
                          const void *values) {
  if (!hk_figure_is_known_of(elements->figure, values)) return;
  if (!elements->is_begun) begin_family(elements->writer, &elements->family);
  elements->is_begun = true;
  write_labelled(elements->writer, &elements->family, label, word, number, hk_figure_value(elements->figure, values));
}

static void write_bands(const writer_t *writer, const hk_snapshot_t *snapshot) {
  const hk_figure_text_t *label = hk_figures_of_band; /* the band's name is its first figure */
  for (const hk_figure_text_t *figure = label + 1; *figure->name != '\0'; figure++) {
    elements_t elements = elements_of(writer, "band", figure, figure->name);
    for (unsigned i = 0; i < HAKMEM_STATS_BANDS; i++) {
      write_element(&elements, "band", hk_figure_word(label, i), 0, &snapshot->band[i]);
    }
  }
}

static void write_classes(const writer_t *writer, const hk_snapshot_t *snapshot) {
  const hk_figure_text_t *label = hk_figures_of_class; /* the class's size is its first figure */
  for (const hk_figure_text_t *figure = label + 1; *figure->name != '\0'; figure++) {
    if (figure->unit == hk_figure_WORD) continue;
    elements_t elements = elements_of(writer, "class", figure, figure->name);
    for (unsigned i = 0; i < snapshot->class_count; i++) {
      write_element(&elements, "class", NULL, snapshot->of_class[i].bytes, &snapshot->of_class[i]);
    }
  }
}

/* Each heap adds about thirty samples to a scrape, which a database stores. A program with more heaps gets samples for
 * the oldest ones, and the sum of all others. */
#define HEAPS_MAX 64

/* Returns whether the figure can be summed. Those that identify a heap cannot, and are no metrics. */
static bool is_quantity(const hk_figure_text_t *figure) {
  return figure->unit != hk_figure_WORD && strcmp(figure->name, "node") != 0 && strcmp(figure->name, "number") != 0;
}

static bool is_event(const char *name) {
  for (unsigned i = 0; i < hk_stat_count; i++) {
    if (strcmp(hk_stat_text[i].name, name) == 0) return true;
  }
  return false;
}

static void write_sum_of_others(elements_t *elements, const hk_snapshot_t *snapshot) {
  hakmem_stats_heap_t others = {0};
  uint64_t *sum = (uint64_t *)((char *)&others + elements->figure->offset);
  for (size_t i = HEAPS_MAX; i < snapshot->heap_count; i++) {
    *sum += hk_figure_value(elements->figure, &snapshot->heap[i]);
  }
  write_element(elements, "heap", "others", 0, &others);
}

static void write_of_heaps(const writer_t *writer, const hk_snapshot_t *snapshot, const hk_figure_text_t *figure,
                           const char *name) {
  elements_t elements = elements_of(writer, "heap", figure, name);
  if (is_event(figure->name)) elements.family.type = "counter";
  for (size_t i = 0; i < hk_smaller(snapshot->heap_count, HEAPS_MAX); i++) {
    write_element(&elements, "heap", NULL, snapshot->heap[i].number, &snapshot->heap[i]);
  }
  if (snapshot->heap_count > HEAPS_MAX) write_sum_of_others(&elements, snapshot);
}

static void write_heaps(const writer_t *writer, const hk_snapshot_t *snapshot) {
  for (const hk_figure_text_t *figure = hk_figures_of_heap; *figure->name != '\0'; figure++) {
    if (!is_quantity(figure)) continue;
    write_of_heaps(writer, snapshot, figure, figure->name);
    const char *old = hk_old_figure_name("heaps", figure->name);
    if (old != NULL) write_of_heaps(writer, snapshot, figure, old);
  }
}

void hk_report_metrics(hk_format_t *out, hk_metrics_form_t form, const hk_snapshot_t *snapshot) {
  writer_t writer = {out, form == hk_metrics_openmetrics};
  write_version(&writer);
  write_process(&writer, snapshot);
  write_events(&writer, snapshot);
  write_costs(&writer, snapshot);
  write_bands(&writer, snapshot);
  write_classes(&writer, snapshot);
  write_heaps(&writer, snapshot);
  hk_report_named_metrics(out, &snapshot->named, writer.is_openmetrics);
  if (writer.is_openmetrics) hk_format_text(out, "# EOF\n");
}
