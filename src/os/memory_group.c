/* os/memory_group.c - L1. See memory_group.h. /proc/self/cgroup names the group; mountinfo tells which part of all
 * groups is mounted, and where. */
#include "os/memory_group.h"

#include "base/format.h"
#include "base/text.h"
#include "os/kernel_file.h"

/* Copies the text before `end`, or all of it, to HK_MEMORY_GROUP_PATH_BYTES. Returns false when it does not fit. */
static bool copy_until(char *to, const char *from, char end) {
  size_t length = 0;
  while (from[length] != end && from[length] != '\0') length++;
  if (length >= HK_MEMORY_GROUP_PATH_BYTES) return false;
  __builtin_memcpy(to, from, length);
  to[length] = '\0';
  return true;
}

/* Appends a text. Returns false when it does not fit. */
static bool join(hk_format_t *to, const char *text) {
  size_t before = to->length;
  hk_format_text(to, text);
  size_t length = 0;
  while (text[length] != '\0') length++;
  return to->length - before == length;
}

static bool open_file(hk_memory_group_buffers_t *buffers, const char *root, const char *name) {
  hk_format_t text;
  hk_format_init(&text, buffers->path, sizeof(buffers->path));
  return join(&text, root) && join(&text, name) && hk_kernel_file_open(&buffers->reader, buffers->path);
}

/* ---- The group's name. */

static const char *after_colon(const char *text) {
  while (*text != ':' && *text != '\0') text++;
  return *text == ':' ? text + 1 : text;
}

/* Returns the name in a line "<number>:<controllers>:<name>"; NULL when the line's group is not the one for memory. Of
 * version 2 the number is 0 and no controllers are listed. */
static const char *name_in(const char *line, bool is_version_1) {
  if (!is_version_1) return hk_text_after(line, "0::");
  const char *controllers = after_colon(line);
  return hk_text_lists(controllers, "memory") ? after_colon(controllers) : NULL;
}

static bool find_name_in(hk_memory_group_buffers_t *buffers, bool is_version_1, const char *root, const char *file) {
  if (!open_file(buffers, root, file)) return false;
  const char *found = NULL;
  while (found == NULL && hk_kernel_file_line(&buffers->reader, buffers->line))
    found = name_in(buffers->line, is_version_1);
  hk_kernel_file_close(&buffers->reader);
  return found != NULL && found[0] == '/' && copy_until(buffers->name, found, '\0');
}

/* After the end of its first thread the process is in the root of each version 1 hierarchy, by its own file. The memory
 * counts for the group that it was in, which its other threads are in. */
static bool find_name(hk_memory_group_buffers_t *buffers, bool is_version_1, const char *root) {
  if (!find_name_in(buffers, is_version_1, root, "/proc/self/cgroup")) return false;
  bool may_be_over = is_version_1 && buffers->name[1] == '\0';
  if (may_be_over && !find_name_in(buffers, is_version_1, root, "/proc/thread-self/cgroup")) {
    return copy_until(buffers->name, "/", '\0'); /* old kernels have no such file */
  }
  return true;
}

/* ---- The folder. */

static const char *next_field(const char *text) {
  while (*text != ' ' && *text != '\0') text++;
  return *text == ' ' ? text + 1 : text;
}

/* Returns whether a line of mountinfo describes a mount of the groups' files. Behind " - " stand the kind of file
 * system, its source and its options. */
static bool is_mount(const char *line, bool is_version_1) {
  const char *kind = line;
  while (*kind != '\0' && hk_text_after(kind, "- ") == NULL) kind = next_field(kind);
  kind = next_field(kind);
  if (!is_version_1) return hk_text_after(kind, "cgroup2 ") != NULL;
  return hk_text_after(kind, "cgroup ") != NULL && hk_text_lists(next_field(next_field(kind)), "memory");
}

/* Replaces escapes such as \040 for a space. */
static void unescape(char *text) {
  char *to = text;
  for (; *text != '\0'; to++) {
    bool is_escape = text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' && text[2] <= '7' &&
                     text[3] >= '0' && text[3] <= '7';
    *to = is_escape ? (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0')) : *text;
    text += is_escape ? 4 : 1;
  }
  *to = '\0';
}

/* Returns whether a part of the path is "..", which leads above all visible groups. */
static bool leads_up(const char *way) {
  for (; *way != '\0'; way++) {
    const char *rest = hk_text_after(way, "/..");
    if (rest != NULL && (*rest == '/' || *rest == '\0')) return true;
  }
  return false;
}

/* Returns the path from a mount that shows the groups from `shown` on to the group; NULL when the mount does not show
 * the group. */
static const char *way_to(const char *group, const char *shown) {
  const char *way = hk_text_after(shown, "/")[0] == '\0' ? group : hk_text_after(group, shown);
  if (way == NULL || leads_up(way)) return NULL;
  if (way[0] == '/') return way[1] == '\0' ? way + 1 : way;
  return way[0] == '\0' ? way : NULL;
}

/* Takes the group's folder from a line of mountinfo. Returns false when the mount does not show the group, and when the
 * folder's name is too long. */
static bool take_mount(hk_memory_group_buffers_t *buffers, const char *root, hk_memory_group_t *group) {
  const char *field = next_field(next_field(next_field(buffers->line)));
  if (field[0] != '/' || !copy_until(buffers->shown, field, ' ')) return false;
  if (!copy_until(buffers->mount, next_field(field), ' ')) return false;
  unescape(buffers->shown);
  unescape(buffers->mount);
  const char *way = way_to(buffers->name, buffers->shown);
  if (way == NULL) return false;
  hk_format_t path;
  hk_format_init(&path, group->path, sizeof(group->path));
  if (!join(&path, root) || !join(&path, buffers->mount)) return false;
  group->top = path.length;
  if (!join(&path, way)) return false;
  group->length = path.length;
  return true;
}

/* After the end of its first thread the process has no mounts: the kernel refuses to open its file. */
static bool open_mounts(hk_memory_group_buffers_t *buffers, const char *root) {
  return open_file(buffers, root, "/proc/self/mountinfo") || open_file(buffers, root, "/proc/thread-self/mountinfo");
}

bool hk_memory_group_find(hk_memory_group_t *group, bool is_version_1, const char *root,
                          hk_memory_group_buffers_t *buffers) {
  if (!find_name(buffers, is_version_1, root) || !open_mounts(buffers, root)) return false;
  bool found = false;
  while (!found && hk_kernel_file_line(&buffers->reader, buffers->line)) {
    found = is_mount(buffers->line, is_version_1) && take_mount(buffers, root, group);
  }
  hk_kernel_file_close(&buffers->reader);
  return found;
}
