/* pprof/pprof.c - L7. See pprof.h. The fields of the outermost message are put one by one, so that no part is larger
 * than one sample. The head comes first, then the samples, which name their locations by number, then the mappings,
 * then each location once. */
#include "pprof/pprof.h"

#include <string.h>

#include "os/os.h"
#include "pprof/address_set.h"
#include "pprof/gzip.h"
#include "pprof/proto.h"
#include "unwind/module_map.h"
#include "unwind/site.h"
#include "unwind/site_sums.h"

/* Fields of profile.proto. */
enum {
  profile_sample_type = 1,
  profile_sample = 2,
  profile_mapping = 3,
  profile_location = 4,
  profile_function = 5,
  profile_string = 6,
  profile_time = 9,
  profile_duration = 10,
  profile_period_type = 11,
  profile_period = 12,
  profile_default_sample_type = 14,
  type_name = 1,
  type_unit = 2,
  sample_location = 1,
  sample_value = 2,
  sample_label = 3,
  label_key = 1,
  label_text = 2,
  mapping_id = 1,
  mapping_start = 2,
  mapping_end = 3,
  mapping_offset = 4,
  mapping_file = 5,
  mapping_build_id = 6,
  location_id = 1,
  location_mapping = 2,
  location_address = 3,
  location_line = 4,
  line_function = 1,
  function_id = 1,
  function_name = 2,
  function_system_name = 3,
};

/* The profile names strings by their numbers. The first is empty; paths and build IDs follow these. */
enum {
  string_alloc_objects = 1,
  string_alloc_space,
  string_inuse_objects,
  string_inuse_space,
  string_count,
  string_bytes,
  string_space,
  string_shared,
  string_no_stack,
  string_heap,
  string_tag,
  string_first_free
};
static const char *const strings[string_first_free] = {
    "",      "alloc_objects", "alloc_space",   "inuse_objects", "inuse_space", "count",
    "bytes", "space",         "[other sites]", "[no stack]",    "heap",        "tag"};

/* Functions for stacks without addresses, and the locations with the same numbers. Locations with an address follow.
 * All are put in the order of their numbers, without a gap: Parca takes no others. */
enum { function_shared = 1, function_no_stack, function_end };

/* Locations in code beyond that many mappings name no mapping. */
#define MAPPINGS_MAX 4096

typedef struct {
  uintptr_t start;
  uintptr_t end;
} code_range_t;

typedef struct {
  hk_output_t *output;
  hk_address_set_t addresses;
  code_range_t *mappings; /* a mapping's number is its place here, from 1 */
  size_t mapping_count;
  uint64_t next_string;
  uint16_t label_strings[HK_SITE_LABELS_MAX]; /* [i]: the string of label i's name; 0: not put yet */
  bool failed;
} writer_t;

static void note(writer_t *writer, bool success) {
  if (!success) writer->failed = true;
}

/* ---- The head. */

static void put_text(writer_t *writer, const char *text, size_t length) {
  note(writer, hk_proto_put_text(writer->output, profile_string, text, length));
}

static void put_type(writer_t *writer, unsigned field, unsigned name, unsigned unit) {
  hk_proto_t message;
  hk_proto_begin(&message);
  hk_proto_number(&message, type_name, name);
  hk_proto_number(&message, type_unit, unit);
  note(writer, hk_proto_put(writer->output, field, &message));
}

static void put_function(writer_t *writer, unsigned id, unsigned name) {
  hk_proto_t message;
  hk_proto_begin(&message);
  hk_proto_number(&message, function_id, id);
  hk_proto_number(&message, function_name, name);
  hk_proto_number(&message, function_system_name, name);
  note(writer, hk_proto_put(writer->output, profile_function, &message));
}

static void put_head(writer_t *writer, const hk_profile_facts_t *facts) {
  for (unsigned i = 0; i < string_first_free; i++) put_text(writer, strings[i], strlen(strings[i]));
  writer->next_string = string_first_free;
  put_type(writer, profile_sample_type, string_alloc_objects, string_count);
  put_type(writer, profile_sample_type, string_alloc_space, string_bytes);
  put_type(writer, profile_sample_type, string_inuse_objects, string_count);
  put_type(writer, profile_sample_type, string_inuse_space, string_bytes);
  put_type(writer, profile_period_type, string_space, string_bytes);
  note(writer, hk_proto_put_number(writer->output, profile_period, facts->rate_bytes));
  note(writer, hk_proto_put_number(writer->output, profile_time, facts->taken_ns));
  note(writer, hk_proto_put_number(writer->output, profile_duration, facts->duration_ns));
  note(writer, hk_proto_put_number(writer->output, profile_default_sample_type, string_inuse_space));
  put_function(writer, function_shared, string_shared);
  put_function(writer, function_no_stack, string_no_stack);
}

/* ---- Samples. */

/* Addresses are numbered from 1. */
static uint64_t location_of_address(uint64_t number) { return function_end - 1 + number; }

/* Returns false when a frame gets no number: more sites were made meanwhile than the set has room for. */
static bool list_locations(writer_t *writer, const hk_site_t *site, hk_proto_t *list) {
  uintptr_t frames[HK_SITE_FRAMES_MAX];
  unsigned count = hk_site_frames(site, frames);
  hk_proto_begin(list);
  for (unsigned i = 0; i < count; i++) {
    uint64_t number = hk_address_set_number(&writer->addresses, frames[i] - 1);
    if (number == 0) return false;
    hk_proto_element(list, location_of_address(number));
  }
  if (count == 0) {
    hk_proto_element(list, hk_site_is_shared(site) ? function_shared : function_no_stack);
  }
  return true;
}

/* The name of a label is put before the first sample that has it. */
static uint64_t string_of_label(writer_t *writer, const hk_site_label_t *label) {
  uint16_t *string = &writer->label_strings[label->number];
  if (*string == 0) {
    put_text(writer, label->name, strlen(label->name));
    *string = (uint16_t)writer->next_string++;
  }
  return *string;
}

/* `room` is for the label's message. */
static void add_label(writer_t *writer, const hk_site_t *site, hk_proto_t *sample, hk_proto_t *room) {
  const hk_site_label_t *label = hk_site_label(site);
  if (label == NULL) return;
  hk_proto_begin(room);
  hk_proto_number(room, label_key, label->is_tag ? string_tag : string_heap);
  hk_proto_number(room, label_text, string_of_label(writer, label));
  hk_proto_nested(sample, sample_label, room);
}

static void put_sample(writer_t *writer, const hk_site_t *site) {
  hk_proto_t message, list;
  hk_site_figures_t allocated, in_use;
  hk_site_sums_read(site, &allocated, &in_use);
  bool is_empty = allocated.samples == 0 && in_use.samples == 0;
  if (is_empty || !list_locations(writer, site, &list)) return;
  hk_proto_begin(&message);
  hk_proto_nested(&message, sample_location, &list);
  hk_proto_begin(&list);
  hk_proto_element(&list, allocated.objects);
  hk_proto_element(&list, allocated.requested_bytes);
  hk_proto_element(&list, in_use.objects);
  hk_proto_element(&list, in_use.requested_bytes);
  hk_proto_nested(&message, sample_value, &list);
  add_label(writer, site, &message, &list);
  note(writer, hk_proto_put(writer->output, profile_sample, &message));
}

/* ---- Mappings. */

static uint64_t put_build_id(writer_t *writer, uintptr_t header) {
  char text[HK_BUILD_ID_TEXT_BYTES];
  size_t length = hk_module_build_id(header, text);
  if (length == 0) return 0;
  put_text(writer, text, length);
  return writer->next_string++;
}

static void put_mapping(writer_t *writer, const hk_module_mapping_t *mapping) {
  uint64_t path = 0, build_id = put_build_id(writer, mapping->header);
  if (*mapping->path != '\0') {
    note(writer, hk_proto_put_path(writer->output, profile_string, mapping->path));
    path = writer->next_string++;
  }
  writer->mappings[writer->mapping_count++] = (code_range_t){mapping->start, mapping->end};
  hk_proto_t message;
  hk_proto_begin(&message);
  hk_proto_number(&message, mapping_id, writer->mapping_count);
  hk_proto_number(&message, mapping_start, mapping->start);
  hk_proto_number(&message, mapping_end, mapping->end);
  hk_proto_number(&message, mapping_offset, mapping->offset);
  hk_proto_number(&message, mapping_file, path);
  hk_proto_number(&message, mapping_build_id, build_id);
  note(writer, hk_proto_put(writer->output, profile_mapping, &message));
}

static void put_mappings(writer_t *writer) {
  hk_module_map_t map;
  if (!hk_module_map_open(&map)) return;
  while (!writer->failed && writer->mapping_count < MAPPINGS_MAX && hk_module_map_next(&map)) {
    if (map.mapping.is_code) put_mapping(writer, &map.mapping);
  }
  hk_module_map_close(&map);
}

/* Returns the number of the address's mapping; 0 when there is none. */
static uint64_t mapping_of(const writer_t *writer, uintptr_t address) {
  size_t low = 0, high = writer->mapping_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (writer->mappings[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < writer->mapping_count && writer->mappings[low].start <= address ? low + 1 : 0;
}

/* ---- Locations. */

static void put_location(writer_t *writer, uint64_t id, uintptr_t address) {
  hk_proto_t message;
  hk_proto_begin(&message);
  hk_proto_number(&message, location_id, id);
  hk_proto_number(&message, location_mapping, mapping_of(writer, address));
  hk_proto_number(&message, location_address, address);
  note(writer, hk_proto_put(writer->output, profile_location, &message));
}

static void put_location_of_function(writer_t *writer, unsigned function) {
  hk_proto_t message, line;
  hk_proto_begin(&line);
  hk_proto_number(&line, line_function, function);
  hk_proto_begin(&message);
  hk_proto_number(&message, location_id, function);
  hk_proto_nested(&message, location_line, &line);
  note(writer, hk_proto_put(writer->output, profile_location, &message));
}

static void put_locations(writer_t *writer) {
  for (unsigned function = function_shared; function < function_end; function++) {
    put_location_of_function(writer, function);
  }
  for (size_t i = 0; i < writer->addresses.used && !writer->failed; i++) {
    put_location(writer, location_of_address(i + 1), writer->addresses.addresses[i]);
  }
}

/* ---- */

static size_t count_frames(void) {
  size_t frames = 0;
  for (const hk_site_t *site = hk_site_next(NULL); site != NULL; site = hk_site_next(site)) frames += site->frame_count;
  return frames;
}

static bool write_all(writer_t *writer, hk_output_t *to, const hk_profile_facts_t *facts) {
  hk_gzip_t gzip;
  hk_gzip_begin(&gzip, to);
  writer->output = &gzip.output;
  put_head(writer, facts);
  for (const hk_site_t *site = hk_site_next(NULL); site != NULL && !writer->failed; site = hk_site_next(site)) {
    put_sample(writer, site);
  }
  put_mappings(writer);
  put_locations(writer);
  return hk_gzip_end(&gzip) && !writer->failed;
}

bool hk_pprof_write(hk_output_t *to, const hk_profile_facts_t *facts) {
  writer_t writer = {.mapping_count = 0};
  size_t mapping_bytes = MAPPINGS_MAX * sizeof(code_range_t);
  /* With room for the frames of 64 sites that are made meanwhile. */
  if (!hk_address_set_init(&writer.addresses, count_frames() + 64 * (size_t)HK_SITE_FRAMES_MAX)) return false;
  writer.mappings = hk_os_reserve(mapping_bytes, hk_os_page_size());
  bool success = false;
  if (writer.mappings != NULL) {
    success = write_all(&writer, to, facts);
    (void)hk_os_unmap(writer.mappings, mapping_bytes);
  }
  hk_address_set_end(&writer.addresses);
  return success;
}
