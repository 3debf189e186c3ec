/* os/memory_limit.h - L1. The limits on memory of the control groups that the process is in, as the kernel's files say
 * them. For os_limit.c alone.
 *
 * Files are opened anew for each look. A descriptor that is kept would be closed by programs that close all there are,
 * and be another file's by then.
 */
#ifndef HK_OS_MEMORY_LIMIT_H
#define HK_OS_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "os/memory_group.h"
#include "os/os.h"

/* Chosen: of a group and those above it so many with a limit are looked at, from the group on. */
#define HK_MEMORY_LIMIT_LEVELS 8

/* Longest name of a file in a group's folder, with the slash and the zero byte. */
#define HK_MEMORY_LIMIT_NAME_BYTES 32

/* The working memory of a look, to be mapped for the time of it (see memory_group.h). */
typedef union {
  hk_memory_group_room_t group;
  struct {
    hk_kernel_file_t reader;
    char line[HK_KERNEL_LINE_BYTES];
    char path[HK_MEMORY_GROUP_PATH_BYTES + HK_MEMORY_LIMIT_NAME_BYTES];
  } limit;
} hk_memory_limit_room_t;

typedef struct {
  hk_memory_group_t group;
  bool is_version_1;
  size_t level[HK_MEMORY_LIMIT_LEVELS]; /* so much of the group's path is a folder with a limit */
  unsigned level_count;
} hk_memory_limit_place_t;

/* Finds the process's limits. False when there is none. `root` stands before every path: "" but in tests. */
bool hk_memory_limit_find(hk_memory_limit_place_t *place, const char *root, hk_memory_limit_room_t *room);

/* The one of them that is nearest, without `stalled_permille`. The limits are read again, for they change; where
 * they are gone, or can be read no more, there is none. False when it is for want of a descriptor that nothing can
 * be read now. */
bool hk_memory_limit_read(const hk_memory_limit_place_t *place, hk_os_memory_limit_t *found,
                          hk_memory_limit_room_t *room);

/* What the group's file about pressure says, or in want of one this file. */
unsigned hk_memory_limit_stalled(const hk_memory_limit_place_t *place, const char *otherwise,
                                 hk_memory_limit_room_t *room);

#endif /* HK_OS_MEMORY_LIMIT_H */
