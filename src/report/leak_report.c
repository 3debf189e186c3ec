/* report/leak_report.c - L9. See leak_report.h. */
#include "report/leak_report.h"

#include "inspect/call_chain.h"
#include "inspect/site_list.h"
#include "report/report_form.h"
#include "unwind/site_sums.h"

#define SCHEMA 1

/* Chosen: as many sites, and calls of each, as a person reads. */
#define SITES_MAX 32
#define FRAMES_MAX 24

/* The most bytes that a site takes in JSON, and the room that is kept for the mappings. */
#define SITE_BYTES (HK_SITE_FRAMES_MAX * 24 + 512)
#define MAPPINGS_BYTES ((size_t)1 << 20)

static uint64_t blocks_of(const hk_leak_sums_t *sums) { return hk_site_sums_rounded(sums->blocks_q16); }

/* ---- Text. */

/* At a rate of one byte every block is a sample, and no number is an estimate. */
static const char *about(const hk_leak_t *leak) { return leak->rate_bytes == 1 ? "" : "about "; }

static void put_sums(hk_format_t *out, const hk_leak_t *leak, const hk_leak_sums_t *sums) {
  hk_format_text(out, about(leak));
  hk_format_count(out, sums->bytes, "byte");
  hk_format_print(out, " in %s", about(leak));
  hk_format_count(out, blocks_of(sums), "block");
  if (leak->rate_bytes == 1) return;
  hk_format_text(out, " (");
  hk_format_count(out, sums->samples, "sample");
  hk_format_text(out, ")");
}

static void put_total(hk_format_t *out, const hk_leak_t *leak, hk_leak_kind_t kind, const char *what) {
  hk_format_text(out, "hakmem: leaks: ");
  if (leak->all[kind].samples == 0) {
    hk_format_print(out, "nothing %s\n", what);
    return;
  }
  put_sums(out, leak, &leak->all[kind]);
  hk_format_print(out, " %s\n", what);
}

static void put_frames(hk_format_t *out, const hk_site_t *site) {
  hk_call_place_t places[FRAMES_MAX];
  uintptr_t frames[HK_SITE_FRAMES_MAX];
  unsigned all = hk_site_frames(site, frames), count = all < FRAMES_MAX ? all : FRAMES_MAX;
  if (hk_site_is_shared(site)) hk_format_text(out, "  stacks that share one entry for want of room\n");
  hk_call_places_of(frames, count, places);
  for (unsigned i = 0; i < count; i++) {
    if (places[i].is_known && places[i].name[0] != '\0') {
      hk_format_text(out, " ");
      hk_call_place_print(out, &places[i]);
      hk_format_text(out, "\n");
    } else {
      hk_format_print(out, "  %p\n", frames[i]);
    }
  }
  if (count < all) {
    hk_format_text(out, "  and ");
    hk_format_count(out, all - count, "more caller");
    hk_format_text(out, "\n");
  }
}

/* Returns the row with the most bytes of this kind; NULL when no row has any. */
static hk_leak_row_t *largest(hk_leak_t *leak, hk_leak_kind_t kind) {
  hk_leak_row_t *found = NULL;
  for (size_t i = 0; i < leak->row_count; i++) {
    hk_leak_row_t *row = &leak->rows[i];
    if (row->site == NULL || row->of[kind].samples == 0) continue;
    if (found == NULL || row->of[kind].bytes > found->of[kind].bytes) found = row;
  }
  return found;
}

/* Consumes the rows: sets their samples of this kind to 0. */
static void put_sites(hk_format_t *out, hk_leak_t *leak, hk_leak_kind_t kind) {
  hk_leak_row_t *row;
  for (unsigned count = 0; (row = largest(leak, kind)) != NULL; count++) {
    if (count == SITES_MAX) {
      hk_format_text(out, "hakmem: leaks: smaller sites are left out; HAKMEM_LEAKS_FILE has all of them\n");
      break;
    }
    hk_format_text(out, "hakmem: leaks: ");
    put_sums(out, leak, &row->of[kind]);
    hk_format_text(out, " from\n");
    put_frames(out, row->site);
    row->of[kind].samples = 0;
  }
}

/* Writes nothing when all other threads were waiting. */
static void put_threads(hk_format_t *out, const hk_root_threads_t *threads) {
  if (!threads->is_known) {
    hk_format_text(out, "hakmem: leaks: the system does not list the other threads\n");
  } else if (threads->waiting < threads->others) {
    hk_format_print(out,
                    "hakmem: leaks: of %u other threads %u ran or could not be read: blocks that only their registers "
                    "point to count as leaked\n",
                    threads->others, threads->others - threads->waiting);
  }
}

static void put_scan(hk_format_t *out, const hk_leak_t *leak) {
  static const char *const why[] = {
      [hk_leak_out_of_time] = "the scan took too long",
      [hk_leak_stopped] = "the scan was stopped",
      [hk_leak_no_memory] = "the system refuses memory for the scan",
      [hk_leak_no_mappings] = "the system does not list the mappings (/proc)",
  };
  if (leak->scan == hk_leak_scanned) {
    hk_format_print(
        out,
        "hakmem: leaks: the scan read %b in %u ms. It misses hidden pointers (packed, in files, in other threads' "
        "registers); see: hakmem help leaks.md\n",
        leak->scan_bytes, leak->scan_ms);
    put_threads(out, &leak->threads);
  } else if (leak->scan != hk_leak_not_scanned) {
    hk_format_print(out, "hakmem: leaks: %s: it is unknown which blocks can be reached\n", why[leak->scan]);
  }
}

static void put_base(hk_format_t *out, const hk_leak_t *leak) {
  if (leak->rate_bytes == 1) {
    hk_format_print(out, "hakmem: leaks: every block since the start is counted (%u)", leak->samples);
  } else {
    hk_format_text(out, "hakmem: leaks: estimates from ");
    hk_format_count(out, leak->samples, "sample");
    if (leak->rate_bytes != 0) hk_format_print(out, ", one for each %b allocated", leak->rate_bytes);
    hk_format_text(out, ": small sites may be missing. HAKMEM_PROFILE_RATE=1 is exact");
  }
  if (leak->lost > 0) hk_format_print(out, "; %u could not be kept", leak->lost);
  hk_format_text(out, "\n");
}

void hk_leak_report_text(hk_format_t *out, hk_leak_t *leak) {
  if (leak->scan == hk_leak_scanned) {
    put_total(out, leak, hk_leak_unreachable, "leaked: no pointer leads there");
    put_sites(out, leak, hk_leak_unreachable);
    put_total(out, leak, hk_leak_reachable, "still reachable");
    if (leak->all[hk_leak_unjudged].samples > 0) {
      put_total(out, leak, hk_leak_unjudged, "were allocated during the scan, or are guarded: it cannot judge them");
    }
  } else {
    put_total(out, leak, hk_leak_unjudged, "not freed");
    put_sites(out, leak, hk_leak_unjudged);
  }
  put_scan(out, leak);
  put_base(out, leak);
}

/* ---- JSON. */

static void put_number(hk_format_t *out, const char *name, uint64_t value) {
  hk_form_json_key(out, name);
  hk_format_decimal(out, value);
}

static void put_kinds(hk_format_t *out, const hk_leak_sums_t *of) {
  static const char *const names[] = {
      [hk_leak_unreachable] = "unreachable", [hk_leak_reachable] = "reachable", [hk_leak_unjudged] = "unjudged"};
  for (unsigned kind = 0; kind < hk_leak_kind_count; kind++) {
    hk_form_json_key(out, names[kind]);
    hk_format_print(out, "{\"samples\":%u,\"blocks\":%u,\"bytes\":%u}", of[kind].samples, blocks_of(&of[kind]),
                    of[kind].bytes);
  }
}

static void put_site(hk_format_t *out, const hk_leak_row_t *row) {
  uintptr_t frames[HK_SITE_FRAMES_MAX];
  unsigned count = hk_site_frames(row->site, frames);
  hk_form_json_separate(out);
  hk_format_text(out, "{");
  hk_form_json_key(out, "frames");
  hk_format_text(out, "[");
  for (unsigned i = 0; i < count; i++) {
    hk_format_print(out, i == 0 ? "\"%p\"" : ",\"%p\"", frames[i]);
  }
  hk_format_text(out, "]");
  hk_form_json_key(out, "shared");
  hk_format_text(out, hk_site_is_shared(row->site) ? "true" : "false");
  put_kinds(out, row->of);
  hk_format_text(out, "}");
}

static void put_all_sites(hk_format_t *out, const hk_leak_t *leak) {
  uint64_t left_out = 0;
  hk_form_json_key(out, "sites");
  hk_format_text(out, "[");
  for (size_t i = 0; i < leak->row_count; i++) {
    if (leak->rows[i].site == NULL) continue;
    if (!hk_format_has_room(out, SITE_BYTES + MAPPINGS_BYTES)) {
      left_out++;
    } else {
      put_site(out, &leak->rows[i]);
    }
  }
  hk_format_text(out, "]");
  put_number(out, "left_out", left_out);
}

/* Drops the text behind the last mapping that another follows, and ends the list. Each mapping but the first begins in
 * a line of its own, and no path has a newline. */
static void end_cut_list(hk_format_t *out, size_t start) {
  static const char between[] = ",\n";
  size_t end = out->length;
  while (end > start && out->text[end - 1] != '\n') end--;
  out->length = end > start ? end - (sizeof between - 1) : start;
  hk_format_text(out, end > start ? "]" : "[]");
}

static void put_mappings(hk_format_t *out) {
  hk_output_text_t output;
  hk_output_text_init(&output, out, SITE_BYTES);
  hk_form_json_key(out, "mappings");
  size_t start = out->length;
  if (!hk_site_list_write_mappings(&output.output)) end_cut_list(out, start);
}

static void put_json_threads(hk_format_t *out, const hk_leak_t *leak) {
  const hk_root_threads_t *threads = &leak->threads;
  hk_form_json_key(out, "threads");
  if (leak->scan != hk_leak_scanned || !threads->is_known) {
    hk_format_text(out, "null");
  } else {
    hk_format_print(out, "{\"others\":%u,\"asked\":%u}", threads->others, threads->waiting);
  }
}

void hk_leak_report_json(hk_format_t *out, const hk_leak_t *leak) {
  static const char *const scans[] = {
      [hk_leak_not_scanned] = "none", [hk_leak_scanned] = "done",        [hk_leak_out_of_time] = "out of time",
      [hk_leak_stopped] = "stopped",  [hk_leak_no_memory] = "no memory", [hk_leak_no_mappings] = "no mappings"};
  hk_form_json_begin(out, SCHEMA);
  put_number(out, "rate", leak->rate_bytes);
  put_number(out, "samples", leak->samples);
  put_number(out, "lost", leak->lost);
  hk_form_json_key(out, "scan");
  hk_form_json_quote(out, scans[leak->scan]);
  put_number(out, "scan_ms", leak->scan_ms);
  put_number(out, "scan_bytes", leak->scan_bytes);
  put_json_threads(out, leak);
  put_kinds(out, leak->all);
  put_all_sites(out, leak);
  put_mappings(out);
  hk_form_json_end(out);
}
