/* report/report_map.c - L9. hk_report_map: the memory by superslabs and large blocks. */
#include "base/units.h"
#include "inspect/census.h"
#include "inspect/survey.h"
#include "os/os.h"
#include "os/shard.h"
#include "policy/size_class.h"
#include "report/report.h"
#include "report/report_form.h"
#include "space/short_span.h"

#define SCHEMA 1

/* Upper bound for one superslab and the end of the report. */
#define MARGIN_BYTES (8 * HK_KIB)

typedef struct {
  hk_format_t *out;
  uint64_t budget;
  uint64_t left_out;
} walk_t;

/* Returns false and counts the element when it might not fit. */
static bool has_room(walk_t *walk) {
  bool fits = hk_format_has_room(walk->out, MARGIN_BYTES);
  walk->left_out += !fits;
  return fits;
}

static void number(hk_format_t *out, const char *name, uint64_t value) {
  hk_form_json_key(out, name);
  hk_format_decimal(out, value);
}

static void address(hk_format_t *out, uintptr_t start) {
  hk_form_json_key(out, "address");
  hk_format_print(out, "\"%p\"", start);
}

/* ---- Superslabs. */

/* The contents of a slab. */
typedef struct {
  const char *state;
  uint64_t class_bytes; /* 0: no blocks */
  uint64_t live_permille;
} contents_t;

static contents_t contents_of_span(walk_t *walk, const hk_survey_superslab_t *superslab, unsigned i) {
  const hk_slab_t *span = &superslab->slab[i];
  bool is_estimate;
  uint64_t live = hk_census_live_blocks(superslab, i, &walk->budget, &is_estimate);
  uint64_t capacity = hk_span_capacity(span);
  return (contents_t){"span", hk_class_bytes(span->class_index), capacity != 0 ? 1000 * live / capacity : 0};
}

static const char *free_state(const hk_survey_superslab_t *superslab, unsigned i) {
  if ((superslab->record.free_mask >> i & 1) == 0) return "kept";
  if ((superslab->record.lazy_mask >> i & 1) != 0) return "lazy";
  return (superslab->record.used_mask >> i & 1) != 0 ? "idle" : "untouched";
}

/* A slab behind the first one of a span or a run has the contents of that one. */
static contents_t contents_of(walk_t *walk, const hk_survey_superslab_t *superslab, unsigned i, contents_t before) {
  const hk_slab_t *slab = &superslab->slab[i];
  switch (hk_slab_state(slab)) {
    case hk_slab_small:
      return hk_census_is_span(superslab, i) ? contents_of_span(walk, superslab, i) : before;
    case hk_slab_run:
      return (contents_t){"run", slab->slab_count * HK_SLAB_BYTES, 1000};
    case hk_slab_run_tail:
      return before;
    default:
      return (contents_t){.state = free_state(superslab, i)};
  }
}

static void write_slab(hk_format_t *out, const hk_survey_superslab_t *superslab, unsigned i, contents_t contents) {
  hk_form_json_separate(out);
  hk_format_text(out, "{");
  hk_form_json_key(out, "state");
  hk_form_json_quote(out, contents.state);
  number(out, "resident", hk_survey_resident(superslab, i * HK_SLAB_BYTES, HK_SLAB_BYTES));
  if (contents.class_bytes != 0) {
    number(out, "class_bytes", contents.class_bytes);
    number(out, "live_permille", contents.live_permille);
  }
  hk_format_text(out, "}");
}

static void write_superslab(void *context, const hk_survey_superslab_t *superslab) {
  walk_t *walk = context;
  hk_format_t *out = walk->out;
  if (!has_room(walk)) return;
  hk_form_json_separate(out);
  hk_format_text(out, "{");
  address(out, superslab->start);
  number(out, "node", hk_shard_node(superslab->record.shard));
  hk_form_json_key(out, "huge");
  hk_format_text(out, superslab->record.is_huge ? "true" : "false");
  hk_form_json_key(out, "slabs");
  hk_format_text(out, "[");
  contents_t contents = {.state = "kept"};
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    contents = contents_of(walk, superslab, i, contents);
    write_slab(out, superslab, i, contents);
  }
  hk_format_text(out, "]}");
}

/* ---- Large blocks. */

static void write_large(void *context, const hk_survey_large_t *large) {
  walk_t *walk = context;
  hk_format_t *out = walk->out;
  if (!has_room(walk)) return;
  hk_form_json_separate(out);
  hk_format_text(out, "{");
  address(out, large->start);
  hk_form_json_key(out, "state");
  hk_form_json_quote(out, large->is_free ? "free" : "live");
  number(out, "bytes", large->bytes);
  number(out, "resident", large->resident_bytes);
  hk_format_text(out, "}");
}

static void write_list(walk_t *walk, const char *name, const hk_survey_visitor_t *visitor, bool is_thorough) {
  hk_form_json_key(walk->out, name);
  hk_format_text(walk->out, "[");
  (void)hk_survey(visitor, is_thorough);
  hk_format_text(walk->out, "]");
}

void hk_report_map(hk_format_t *out) {
  walk_t walk = {.out = out, .budget = HK_CENSUS_READ_BYTES};
  hk_survey_visitor_t look = {&walk, NULL, NULL}, superslabs = {&walk, write_superslab, NULL},
                      larges = {&walk, NULL, write_large};
  bool is_thorough = !hk_survey(&look, false);
  hk_form_json_begin(out, SCHEMA);
  number(out, "page_bytes", hk_os_page_size());
  number(out, "slab_bytes", HK_SLAB_BYTES);
  number(out, "superslab_bytes", HK_SUPERSLAB_BYTES);
  write_list(&walk, "superslabs", &superslabs, is_thorough);
  write_list(&walk, "big", &larges, is_thorough);
  number(out, "left_out", walk.left_out);
  hk_form_json_end(out);
}
