/* os/memory_group.h - L1. Finds the folder of the control group that limits the process's memory. For memory_limit.c
 * alone. */
#ifndef HK_OS_MEMORY_GROUP_H
#define HK_OS_MEMORY_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "os/kernel_file.h"

/* Chosen: a group whose folder has a longer name is ignored. */
#define HK_MEMORY_GROUP_PATH_BYTES 512

typedef struct {
  char path[HK_MEMORY_GROUP_PATH_BYTES]; /* the group's folder, without a slash behind it */
  size_t length;
  size_t top; /* length of the mount point in `path`: the highest visible group */
} hk_memory_group_t;

/* The working memory of a search, which may exceed a small thread stack. */
typedef struct {
  hk_kernel_file_t reader;
  char line[HK_KERNEL_LINE_BYTES];
  char path[HK_MEMORY_GROUP_PATH_BYTES]; /* of a file */
  char name[HK_MEMORY_GROUP_PATH_BYTES]; /* of the group */
  char shown[HK_MEMORY_GROUP_PATH_BYTES];
  char mount[HK_MEMORY_GROUP_PATH_BYTES];
} hk_memory_group_buffers_t;

/* Finds the process's group by /proc, of version 1 or 2 of the kernel's interface. Returns false when there is
 * none. `root` stands before every path: "" except in tests. */
bool hk_memory_group_find(hk_memory_group_t *group, bool is_version_1, const char *root,
                          hk_memory_group_buffers_t *buffers);

#endif /* HK_OS_MEMORY_GROUP_H */
