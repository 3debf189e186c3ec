/* os/memory_limit.h - L1. Reads the memory limits of the process's control groups from the kernel's files. For
 * os_limit.c alone.
 *
 * Each read opens the files anew. A program that closes all descriptors would close a kept one, and its number could
 * then belong to another file.
 */
#ifndef HK_OS_MEMORY_LIMIT_H
#define HK_OS_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "os/memory_group.h"
#include "os/os.h"

/* Chosen: the most groups with a limit that count, from the process's own group upward. */
#define HK_MEMORY_LIMIT_LEVELS 8

/* Longest name of a file in a group's folder, with the slash and the zero byte. */
#define HK_MEMORY_LIMIT_NAME_BYTES 32

/* The working memory of a read, mapped while the read lasts (see memory_group.h). */
typedef union {
  hk_memory_group_buffers_t group;
  struct {
    hk_kernel_file_t reader;
    char line[HK_KERNEL_LINE_BYTES];
    char path[HK_MEMORY_GROUP_PATH_BYTES + HK_MEMORY_LIMIT_NAME_BYTES];
  } limit;
} hk_memory_limit_buffers_t;

typedef struct {
  hk_memory_group_t group;
  bool is_version_1;
  size_t level[HK_MEMORY_LIMIT_LEVELS]; /* lengths of the group's path that are a folder with a limit */
  unsigned level_count;
} hk_memory_limit_place_t;

/* Finds the process's limits. Returns false when there is none. `root` stands before every path: "" except in tests. */
bool hk_memory_limit_find(hk_memory_limit_place_t *place, const char *root, hk_memory_limit_buffers_t *buffers);

/* Reads the limits anew, for they change, and stores the one that leaves the least room, without `stalled_permille`;
 * `limit_bytes` is 0 when no limit can be read. Returns false when a file could not be opened for want of descriptors
 * or memory. */
bool hk_memory_limit_read(const hk_memory_limit_place_t *place, hk_os_memory_limit_t *found,
                          hk_memory_limit_buffers_t *buffers);

/* Returns how much of the last ten seconds some task waited for memory, in permille: from the group's file on pressure,
 * or from the file `otherwise` where the group has none. Returns 0 when neither can be read. */
unsigned hk_memory_limit_stalled(const hk_memory_limit_place_t *place, const char *otherwise,
                                 hk_memory_limit_buffers_t *buffers);

#endif /* HK_OS_MEMORY_LIMIT_H */
