/* os/node_list.h - L1. Reads a set of memory nodes from the files of /sys/devices/system/node. For os_node.c alone. */
#ifndef HK_OS_NODE_LIST_H
#define HK_OS_NODE_LIST_H

/* Returns the number of nodes that the file at `path` lists ("0-3,8"): the highest number and one more. Returns 1 where
 * it lists a single node, whatever its number, and 0 when there is no such file or no number in it. */
unsigned hk_node_list_read(const char *path);

#endif /* HK_OS_NODE_LIST_H */
