/* inspect/site_list.c - L8. See site_list.h. */
#include "inspect/site_list.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/format.h"
#include "base/text.h"
#include "unwind/module_map.h"
#include "unwind/site.h"
#include "unwind/site_sums.h"

/* Text is collected here. There is always room for a number and its name, and for a build ID. */
#define CHUNK_BYTES 1024
#define SPARE_BYTES 128
static_assert(HK_BUILD_ID_TEXT_BYTES + 16 <= SPARE_BYTES, "a build ID has room");

typedef struct {
  hk_output_t *to;
  bool failed;
  bool has_pinned;
  hk_format_t text;
  char chunk[CHUNK_BYTES];
} list_t;

static void flush(list_t *list) {
  if (!list->failed && list->text.length > 0) list->failed = !list->to->put(list->to, list->chunk, list->text.length);
  hk_format_init(&list->text, list->chunk, sizeof(list->chunk));
}

/* Returns the text, which then has room for SPARE_BYTES more. */
static hk_format_t *with_room(list_t *list) {
  if (list->text.length > CHUNK_BYTES - SPARE_BYTES) flush(list);
  return &list->text;
}

static void put(list_t *list, const char *text) { hk_format_text(with_room(list), text); }

static void put_field(list_t *list, const char *name, uint64_t value) {
  hk_format_print(with_room(list), ",\"%s\":%u", name, value);
}

static void put_address_field(list_t *list, const char *name, uint64_t value) {
  hk_format_print(with_room(list), "\"%s\":\"%p\",", name, (uintptr_t)value);
}

/* ---- Sites. */

static void put_frames(list_t *list, const hk_site_t *site) {
  uintptr_t frames[HK_SITE_FRAMES_MAX];
  unsigned count = hk_site_frames(site, frames);
  for (unsigned i = 0; i < count; i++) {
    hk_format_print(with_room(list), i == 0 ? "\"%p\"" : ",\"%p\"", frames[i]);
  }
}

/* In whole blocks, weighted as the other sums are. */
static void put_lifetimes(list_t *list, const hk_site_t *site) {
  put(list, ",\"lifetimes\":");
  for (unsigned i = 0; i < HK_SITE_LIFETIMES; i++) {
    hk_format_print(with_room(list), i == 0 ? "[%u" : ",%u", hk_site_sums_lifetime(site, i));
  }
  put(list, "]");
}

/* The name is printable text by now (hk_format_name). */
static void put_label(list_t *list, const hk_site_t *site) {
  const hk_site_label_t *label = hk_site_label(site);
  if (label == NULL) return;
  hk_format_print(with_room(list), ",\"%s\":\"", label->is_tag ? "tag" : "heap");
  for (const char *name = label->name; *name != '\0'; name++) {
    char text[] = {*name, '\0'};
    if (*name == '"' || *name == '\\') put(list, "\\");
    put(list, text);
  }
  put(list, "\"");
}

static void put_site(list_t *list, const hk_site_t *site, const char **before) {
  hk_site_figures_t allocated, in_use;
  hk_site_sums_read(site, &allocated, &in_use);
  if (allocated.samples == 0 && in_use.samples == 0) return;
  put(list, *before);
  *before = ",\n";
  put(list, "{\"frames\":[");
  put_frames(list, site);
  put(list, hk_site_is_shared(site) ? "],\"shared\":true" : "],\"shared\":false");
  put_field(list, "samples", allocated.samples);
  put_field(list, "inuse_samples", in_use.samples);
  put_field(list, "alloc_objects", allocated.objects);
  put_field(list, "alloc_bytes", allocated.requested_bytes);
  put_field(list, "inuse_objects", in_use.objects);
  put_field(list, "inuse_bytes", in_use.requested_bytes);
  put_field(list, "requested", in_use.requested_bytes);
  put_field(list, "block_bytes", in_use.block_bytes);
  put_lifetimes(list, site);
  put_label(list, site);
  if (list->has_pinned) {
    hk_format_print(with_room(list), ",\"pinned\":{\"bytes\":%u}}", site->pinned_bytes);
  } else {
    put(list, ",\"pinned\":null}");
  }
}

static void put_sites(list_t *list) {
  const char *before = "";
  for (const hk_site_t *site = hk_site_next(NULL); site != NULL && !list->failed; site = hk_site_next(site)) {
    put_site(list, site, &before);
  }
}

/* ---- Mappings. */

/* Quotes the path, which may have any bytes. The tool opens it: as Python decodes it, no byte is lost. */
static void put_path(list_t *list, const char *path) {
  put(list, "\"path\":\"");
  while (*path != '\0') {
    unsigned char byte = (unsigned char)*path;
    unsigned length = hk_text_printable_bytes(path);
    char character[5] = {0}, escape[HK_TEXT_ESCAPE_BYTES];
    hk_text_escape(escape, byte);
    memcpy(character, path, length);
    if (byte == '"' || byte == '\\') put(list, "\\");
    put(list, length > 0 ? character : escape);
    path += length > 0 ? length : 1;
  }
  put(list, "\",");
}

static void put_build_id(list_t *list, uintptr_t header) {
  char text[HK_BUILD_ID_TEXT_BYTES];
  size_t length = hk_module_build_id(header, text);
  if (length > 0) {
    hk_format_print(with_room(list), "\"build_id\":\"%s\"}", text);
  } else {
    put(list, "\"build_id\":null}");
  }
}

static void put_mappings(list_t *list) {
  hk_module_map_t map;
  if (!hk_module_map_open(&map)) return;
  const char *before = "{";
  while (!list->failed && hk_module_map_next(&map)) {
    if (!map.mapping.is_code) continue;
    put(list, before);
    put_address_field(list, "start", map.mapping.start);
    put_address_field(list, "end", map.mapping.end);
    put_address_field(list, "offset", map.mapping.offset);
    put_path(list, map.mapping.path);
    put_build_id(list, map.mapping.header);
    before = ",\n{";
  }
  hk_module_map_close(&map);
}

static void begin(list_t *list, hk_output_t *to) {
  list->to = to;
  list->failed = false;
  list->has_pinned = false;
  hk_format_init(&list->text, list->chunk, sizeof(list->chunk));
}

bool hk_site_list_write_mappings(hk_output_t *to) {
  list_t list;
  begin(&list, to);
  put(&list, "[");
  put_mappings(&list);
  put(&list, "]");
  flush(&list);
  return !list.failed;
}

bool hk_site_list_write(hk_output_t *to, uint64_t rate_bytes, bool has_pinned) {
  list_t list;
  begin(&list, to);
  list.has_pinned = has_pinned;
  hk_format_print(&list.text, "{\"schema\":1,\"rate\":%u,\"sites\":[\n", rate_bytes);
  put_sites(&list);
  put(&list, "\n],\"mappings\":[\n");
  put_mappings(&list);
  put(&list, "\n]}\n");
  flush(&list);
  return !list.failed;
}
