/* os/memory_limit.c - L1. See memory_limit.h. */
#include "os/memory_limit.h"

#include <errno.h>
#include <stdint.h>

#include "base/format.h"
#include "base/text.h"
#include "os/kernel_file.h"

/* Chosen: when less than 1/CLOSE_SHARE of the limit is left, the use is read without inactive files. */
#define CLOSE_SHARE 2

/* Version 1 writes "no limit" as the highest number of whole pages. No real limit is near it. */
#define NO_LIMIT_FROM (SIZE_MAX / 4)

/* One group's folder: the first `length` bytes of the path. */
typedef struct {
  const hk_memory_limit_place_t *place;
  hk_memory_limit_buffers_t *buffers;
  size_t length;
  bool is_short; /* a file could not be opened for want of descriptors or memory */
} folder_t;

/* ---- A number in a file. */

static bool open_in(folder_t *folder, const char *name) {
  hk_kernel_file_t *reader = &folder->buffers->limit.reader;
  char *path = folder->buffers->limit.path;
  __builtin_memcpy(path, folder->place->group.path, folder->length);
  hk_format_t text;
  hk_format_init(&text, path + folder->length, sizeof(folder->buffers->limit.path) - folder->length);
  hk_format_print(&text, "/%s", name);
  if (hk_kernel_file_open(reader, path)) return true;
  folder->is_short |= reader->file == -EMFILE || reader->file == -ENFILE || reader->file == -ENOMEM;
  return false;
}

/* Reads the number behind `label` at the start of a line. Returns false when there is none. */
static bool read_number(folder_t *folder, const char *name, const char *label, size_t *number) {
  if (!open_in(folder, name)) return false;
  hk_kernel_file_t *reader = &folder->buffers->limit.reader;
  char *line = folder->buffers->limit.line;
  bool found = false;
  while (!found && hk_kernel_file_line(reader, line)) {
    const char *rest = hk_text_after(line, label);
    found = rest != NULL && hk_text_number(rest, number) != NULL;
  }
  hk_kernel_file_close(reader);
  return found;
}

/* ---- One group. */

/* Lowers `limit` to the number in the file. "max", which is no number, means no limit. */
static void lower_to(folder_t *folder, const char *name, size_t *limit) {
  size_t number;
  if (read_number(folder, name, "", &number) && number < *limit) *limit = number;
}

static bool read_limit(folder_t *folder, size_t *limit) {
  *limit = SIZE_MAX;
  if (folder->place->is_version_1) {
    lower_to(folder, "memory.limit_in_bytes", limit);
  } else {
    lower_to(folder, "memory.max", limit);
    lower_to(folder, "memory.high", limit); /* above it the kernel slows the program down */
  }
  return *limit < NO_LIMIT_FROM;
}

/* Subtracts the inactive file pages: they count as use, but the kernel drops them before it slows down or ends a
 * process. */
static void leave_out_files(folder_t *folder, size_t *use) {
  const char *label = folder->place->is_version_1 ? "total_inactive_file " : "inactive_file ";
  size_t files;
  if (read_number(folder, "memory.stat", label, &files)) *use -= files < *use ? files : *use;
}

/* Reads a group's limit and use. Returns false when the group has no limit or its use cannot be read. */
static bool read_group(folder_t *folder, hk_os_memory_limit_t *found) {
  const char *use = folder->place->is_version_1 ? "memory.usage_in_bytes" : "memory.current";
  if (!read_limit(folder, &found->limit_bytes) || !read_number(folder, use, "", &found->use_bytes)) return false;
  if (found->limit_bytes == 0) found->limit_bytes = 1; /* 0 means no limit */
  if (found->use_bytes > found->limit_bytes / CLOSE_SHARE) leave_out_files(folder, &found->use_bytes);
  return true;
}

/* ---- All of them. */

/* Records the groups with a limit, from the process's own up to the highest visible one. */
static void find_levels(hk_memory_limit_place_t *place, hk_memory_limit_buffers_t *buffers) {
  const hk_memory_group_t *group = &place->group;
  size_t length = group->length;
  place->level_count = 0;
  while (place->level_count < HK_MEMORY_LIMIT_LEVELS) {
    folder_t folder = {.place = place, .buffers = buffers, .length = length};
    hk_os_memory_limit_t found;
    if (read_group(&folder, &found)) place->level[place->level_count++] = length;
    if (length <= group->top) return;
    do length--;
    while (group->path[length] != '/'); /* there is one behind the mount point at the latest */
  }
}

static bool find(hk_memory_limit_place_t *place, bool is_version_1, const char *root,
                 hk_memory_limit_buffers_t *buffers) {
  place->is_version_1 = is_version_1;
  if (!hk_memory_group_find(&place->group, is_version_1, root, &buffers->group)) return false;
  find_levels(place, buffers);
  return place->level_count > 0;
}

/* Where both versions are mounted, one of them manages memory: the other has no files about it. */
bool hk_memory_limit_find(hk_memory_limit_place_t *place, const char *root, hk_memory_limit_buffers_t *buffers) {
  return find(place, true, root, buffers) || find(place, false, root, buffers);
}

static size_t room_in(const hk_os_memory_limit_t *found) {
  return found->limit_bytes > found->use_bytes ? found->limit_bytes - found->use_bytes : 0;
}

bool hk_memory_limit_read(const hk_memory_limit_place_t *place, hk_os_memory_limit_t *found,
                          hk_memory_limit_buffers_t *buffers) {
  *found = (hk_os_memory_limit_t){0};
  bool is_short = false;
  for (unsigned i = 0; i < place->level_count; i++) {
    folder_t folder = {.place = place, .buffers = buffers, .length = place->level[i]};
    hk_os_memory_limit_t group = {0};
    bool has_limit = read_group(&folder, &group);
    is_short |= folder.is_short;
    if (has_limit && (found->limit_bytes == 0 || room_in(&group) < room_in(found))) *found = group;
  }
  return !is_short;
}

/* ---- Pressure. */

/* Returns the average in the line "some avg10=12.34 ...", in permille: the part of the last ten seconds in which some
 * task waited for memory. Returns 0 for another line. */
static unsigned permille_in(const char *line) {
  const char *text = hk_text_after(line, "some avg10=");
  uint64_t percent, fraction = 0;
  if (text == NULL || (text = hk_text_number(text, &percent)) == NULL || percent > 100) return 0;
  if (text[0] == '.' && text[1] >= '0' && text[1] <= '9') fraction = (uint64_t)(text[1] - '0');
  return (unsigned)(percent * 10 + fraction);
}

unsigned hk_memory_limit_stalled(const hk_memory_limit_place_t *place, const char *otherwise,
                                 hk_memory_limit_buffers_t *buffers) {
  folder_t folder = {.place = place, .buffers = buffers, .length = place->group.length};
  hk_kernel_file_t *reader = &buffers->limit.reader;
  bool has_own = place->level_count > 0 && !place->is_version_1 && open_in(&folder, "memory.pressure");
  if (!has_own && !hk_kernel_file_open(reader, otherwise)) return 0;
  char *line = buffers->limit.line;
  unsigned permille = hk_kernel_file_line(reader, line) ? permille_in(line) : 0;
  hk_kernel_file_close(reader);
  return permille;
}
