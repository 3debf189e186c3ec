/* unwind/module_map: the input is the text of /proc/self/maps. A mapping, written anew, has to read the same. */
#include "unwind/module_map.h"

#include <string.h>

#include "fuzz.h"
#include "kernel_text.h"

#define LINE_BYTES (2 * HK_KERNEL_LINE_BYTES)

static int write_mapping(const hk_module_mapping_t *mapping, char *line) {
  char rights[] = {mapping->is_readable ? 'r' : '-', mapping->is_writable ? 'w' : '-', mapping->is_code ? 'x' : '-',
                   mapping->is_shared ? 's' : 'p', '\0'};
  return snprintf(line, LINE_BYTES, "%lx-%lx %s %08lx 08:01 %lu  %s\n", (unsigned long)mapping->start,
                  (unsigned long)mapping->end, rights, (unsigned long)mapping->offset, (unsigned long)mapping->inode,
                  mapping->path);
}

static void check_same(const hk_module_mapping_t *a, const hk_module_mapping_t *b) {
  FUZZ_CHECK(a->start == b->start && a->end == b->end && a->offset == b->offset && a->inode == b->inode);
  FUZZ_CHECK(a->is_readable == b->is_readable && a->is_writable == b->is_writable);
  FUZZ_CHECK(a->is_code == b->is_code && a->is_shared == b->is_shared);
  FUZZ_CHECK(strcmp(a->path, b->path) == 0);
}

static void check_written(const hk_module_mapping_t *mapping) {
  static char line[LINE_BYTES];
  static hk_module_map_t again;
  int length = write_mapping(mapping, line);
  if (length > HK_KERNEL_LINE_BYTES) return;
  kernel_text_load((const uint8_t *)line, (size_t)length);
  FUZZ_CHECK(hk_module_map_open(&again) && hk_module_map_next(&again));
  check_same(mapping, &again.mapping);
  FUZZ_CHECK(again.mapping.header == (mapping->offset == 0 && *mapping->path != '\0' ? mapping->start : 0));
  FUZZ_CHECK(!hk_module_map_next(&again));
  hk_module_map_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { mappings_max = 32 };
  static hk_module_map_t map;
  static hk_module_mapping_t found[mappings_max];
  static char paths[mappings_max][HK_KERNEL_LINE_BYTES];
  unsigned count = 0;
  kernel_text_load(data, size);
  if (!hk_module_map_open(&map)) return 0;
  while (hk_module_map_next(&map)) {
    const hk_module_mapping_t *mapping = &map.mapping;
    FUZZ_CHECK(mapping->path >= map.line && mapping->path < map.line + sizeof map.line);
    FUZZ_CHECK(memchr(mapping->path, '\0', (size_t)(map.line + sizeof map.line - mapping->path)) != NULL);
    if (count == mappings_max) continue;
    found[count] = *mapping;
    strcpy(paths[count], mapping->path);
    found[count].path = paths[count];
    count++;
  }
  hk_module_map_close(&map);
  FUZZ_CHECK(kernel_text_open_count() == 0);
  for (unsigned i = 0; i < count; i++) check_written(&found[i]);
  return 0;
}
