/* report/report_named.c - L9. See report_named.h. A name is the program's: any bytes. */
#include "report/report_named.h"

#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "report/report_form.h"

/* The rows of the rest have kinds of their own: a name of the program's may be any text. */
static const char *kind_of(const hk_named_figures_t *figures) {
  if (figures->is_rest) return figures->is_tag ? "tags" : "heaps";
  return figures->is_tag ? "tag" : "heap";
}

static const char *name_of(const hk_named_figures_t *figures) { return figures->is_rest ? "others" : figures->name; }

/* Upper bound for a name that is written as hk_format_name does. */
#define NAME_TEXT_BYTES (4 * HK_NAMED_NAME_BYTES)

/* ---- Text. */

#define NAME_COLUMN 2
#define NAME_WIDTH 28
#define COLUMN_WIDTH 12

/* Appends as much of the name as the column has room for. Returns the bytes that take no place on the line. */
static size_t name_in_column(hk_format_t *out, const char *name) {
  char text[NAME_TEXT_BYTES];
  hk_format_t plain;
  hk_format_init(&plain, text, sizeof text);
  hk_format_name(&plain, name);
  size_t extra = 0, i = 0;
  for (unsigned width = 0; width < NAME_WIDTH - 2 && text[i] != '\0'; width++) {
    unsigned length = hk_text_printable_bytes(&text[i]);
    extra += length - 1;
    i += length;
  }
  text[i] = '\0';
  hk_format_text(out, text);
  return extra;
}

/* The columns: as many as lines of 120 characters have room for. The other forms have all figures. */
static bool is_column(const hk_named_text_t *text) {
  static const char *const columns[] = {"parts", "live_blocks", "live_bytes",   "memory",
                                        "peak",  "hard_limit",  "refused_count"};
  for (unsigned i = 0; i < sizeof columns / sizeof *columns; i++) {
    if (strcmp(text->name, columns[i]) == 0) return true;
  }
  return false;
}

static void heads(hk_format_t *out) {
  size_t column = NAME_COLUMN + NAME_WIDTH + 6;
  for (const hk_named_text_t *text = hk_named_texts; *text->name != '\0'; text++) {
    if (!is_column(text)) continue;
    hk_format_pad(out, column);
    for (const char *name = text->name; *name != '\0'; name++) {
      char character[2] = {*name == '_' ? ' ' : *name, '\0'};
      hk_format_text(out, character);
    }
    column += COLUMN_WIDTH;
  }
  hk_format_text(out, "\n");
}

static void line(hk_format_t *out, const hk_named_figures_t *figures) {
  size_t column = NAME_COLUMN + NAME_WIDTH + 6;
  hk_format_pad(out, NAME_COLUMN);
  size_t extra = name_in_column(out, name_of(figures));
  column += extra;
  hk_format_pad(out, NAME_COLUMN + NAME_WIDTH + extra);
  hk_format_text(out, kind_of(figures));
  for (const hk_named_text_t *text = hk_named_texts; *text->name != '\0'; text++) {
    if (!is_column(text)) continue;
    hk_format_pad(out, column);
    if (text->is_bytes) {
      hk_format_bytes(out, hk_named_value(text, figures));
    } else {
      hk_format_decimal(out, hk_named_value(text, figures));
    }
    column += COLUMN_WIDTH;
  }
  hk_format_text(out, "\n");
}

void hk_report_named_text(hk_format_t *out, const hk_named_table_t *table) {
  if (table->count == 0) return;
  hk_format_text(out, "hakmem: named heaps and tags\n");
  heads(out);
  for (unsigned i = 0; i < table->count; i++) line(out, &table->of[i]);
}

/* ---- JSON. */

/* Upper bound for one element and the end of the report. */
#define MARGIN_BYTES (4 * HK_KIB)

static void element(hk_format_t *out, const hk_named_figures_t *figures) {
  hk_form_json_separate(out);
  hk_format_text(out, "{");
  hk_form_json.text(out, "name", name_of(figures));
  hk_form_json.text(out, "kind", kind_of(figures));
  for (const hk_named_text_t *text = hk_named_texts; *text->name != '\0'; text++) {
    if (text->is_of_tag && !figures->is_tag) continue;
    hk_form_json.row(out, &(hk_form_row_t){text->name, text->help, hk_named_value(text, figures), text->is_bytes});
  }
  hk_format_text(out, "}");
}

void hk_report_named_json(hk_format_t *out, const hk_named_table_t *table) {
  if (table->count == 0) return;
  hk_form_json.begin_list(out, "named");
  for (unsigned i = 0; i < table->count && hk_format_has_room(out, MARGIN_BYTES); i++) element(out, &table->of[i]);
  hk_form_json.end_list(out);
}

/* ---- Metrics. */

/* Appends a label's value: a backslash and a quote are escaped once more. */
static void label_value(hk_format_t *out, const char *name) {
  char plain[NAME_TEXT_BYTES];
  hk_format_t text;
  hk_format_init(&text, plain, sizeof plain);
  hk_format_name(&text, name);
  for (name = plain; *name != '\0'; name++) {
    char escaped[] = {'\\', *name, '\0'};
    hk_format_text(out, *name == '\\' || *name == '"' ? escaped : escaped + 1);
  }
}

static void family(hk_format_t *out, const hk_named_text_t *text, bool is_openmetrics) {
  char name[64];
  hk_format_t words;
  hk_format_init(&words, name, sizeof name);
  bool has_unit = text->is_bytes && !hk_text_ends(text->name, "_bytes");
  hk_format_print(&words, "hakmem_named_%s%s", text->name, has_unit ? "_bytes" : "");
  const char *total = text->is_event ? "_total" : "";
  const char *head_total = is_openmetrics ? "" : total;
  hk_format_print(out, "# TYPE %s%s %s\n", name, head_total, text->is_event ? "counter" : "gauge");
  if (is_openmetrics && text->is_bytes) hk_format_print(out, "# UNIT %s bytes\n", name);
  hk_format_print(out, "# HELP %s%s %s\n", name, head_total, text->help);
}

static void sample(hk_format_t *out, const hk_named_text_t *text, const hk_named_figures_t *figures) {
  bool has_unit = text->is_bytes && !hk_text_ends(text->name, "_bytes");
  hk_format_print(out, "hakmem_named_%s%s%s{%s=\"", text->name, has_unit ? "_bytes" : "",
                  text->is_event ? "_total" : "", kind_of(figures));
  label_value(out, name_of(figures));
  hk_format_print(out, "\"} %u\n", hk_named_value(text, figures));
}

void hk_report_named_metrics(hk_format_t *out, const hk_named_table_t *table, bool is_openmetrics) {
  if (table->count == 0) return;
  for (const hk_named_text_t *text = hk_named_texts; *text->name != '\0'; text++) {
    family(out, text, is_openmetrics);
    for (unsigned i = 0; i < table->count; i++) {
      if (!text->is_of_tag || table->of[i].is_tag) sample(out, text, &table->of[i]);
    }
  }
}
