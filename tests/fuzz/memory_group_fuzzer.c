/* os/memory_group and memory_limit: the input is files of /proc/self and of control groups (kernel_text.h). Results
 * have to lie within their bounds, a second call has to find the same, and no file may stay open. */
#include <string.h>

#include "fuzz.h"
#include "kernel_text.h"
#include "os/memory_limit.h"

#define ROOT "/root"
#define PERMILLE_MAX 1009 /* "100.9" */

static void check_group(const hk_memory_group_t *group) {
  FUZZ_CHECK(group->length < sizeof group->path && strlen(group->path) == group->length);
  FUZZ_CHECK(group->top <= group->length);
  FUZZ_CHECK(strncmp(group->path, ROOT, strlen(ROOT)) == 0 && group->top >= strlen(ROOT));
  FUZZ_CHECK(group->path[group->top] == '/' || group->path[group->top] == '\0');
  for (const char *part = group->path + group->top; (part = strstr(part, "/..")) != NULL; part += 3) {
    FUZZ_CHECK(part[3] != '/' && part[3] != '\0');
  }
}

static void check_levels(const hk_memory_limit_place_t *place) {
  FUZZ_CHECK(place->level_count <= HK_MEMORY_LIMIT_LEVELS);
  for (unsigned i = 0; i < place->level_count; i++) {
    FUZZ_CHECK(place->level[i] >= place->group.top && place->level[i] <= place->group.length);
    if (i > 0) FUZZ_CHECK(place->level[i] < place->level[i - 1]);
  }
}

static void check_limit(const hk_os_memory_limit_t *found) {
  if (found->limit_bytes == 0) FUZZ_CHECK(found->use_bytes == 0);
  FUZZ_CHECK(found->limit_bytes < SIZE_MAX / 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static hk_memory_limit_buffers_t buffers;
  static hk_memory_limit_place_t place, again;
  kernel_text_load(data, size);
  memset(&place, 0, sizeof place);
  memset(&again, 0, sizeof again);
  bool is_found = hk_memory_limit_find(&place, ROOT, &buffers);
  FUZZ_CHECK(is_found == hk_memory_limit_find(&again, ROOT, &buffers));
  FUZZ_CHECK(kernel_text_open_count() == 0);
  if (is_found) {
    check_group(&place.group);
    FUZZ_CHECK(strcmp(place.group.path, again.group.path) == 0 && place.is_version_1 == again.is_version_1);
    FUZZ_CHECK(place.level_count > 0 && place.level_count == again.level_count);
  }
  check_levels(&place);

  hk_os_memory_limit_t found, same;
  FUZZ_CHECK(hk_memory_limit_read(&place, &found, &buffers) && hk_memory_limit_read(&place, &same, &buffers));
  FUZZ_CHECK(found.limit_bytes == same.limit_bytes && found.use_bytes == same.use_bytes);
  FUZZ_CHECK(is_found || found.limit_bytes == 0);
  check_limit(&found);
  FUZZ_CHECK(hk_memory_limit_stalled(&place, ROOT "/proc/pressure/memory", &buffers) <= PERMILLE_MAX);
  FUZZ_CHECK(kernel_text_open_count() == 0);
  return 0;
}
