/* os/node_list.h - L1. How the kernel writes down a set of memory nodes, in the files of /sys/devices/system/node. For
 * os_node.c alone. */
#ifndef HK_OS_NODE_LIST_H
#define HK_OS_NODE_LIST_H

/* How many nodes to be ready for when the file at `path` lists them ("0-3,8"): the highest number and one more. 1 where
 * it lists only one, whatever its number; 0 when there is no such file, or no number in it. */
unsigned hk_node_list_read(const char *path);

#endif /* HK_OS_NODE_LIST_H */
