/* inspect/root.h - L8. The roots of a leak scan: the program's own pointers outside its blocks. Roots lie in all memory
 * that the program can write to, such as stacks, static and thread-local data, in anonymous memory that it has made
 * read-only, and in the registers of its threads. The allocator's own memory has none. */
#ifndef HK_INSPECT_ROOT_H
#define HK_INSPECT_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "inspect/reach.h"

HK_C_BEGIN

/* Threads beside the calling one. `waiting` counts those in a system call, whose argument registers the scan has read.
 * The other registers of a thread can be read only by stopping it. */
typedef struct {
  bool is_known; /* the system lists the threads */
  uint64_t others;
  uint64_t waiting;
} hk_root_threads_t;

typedef enum {
  hk_root_followed,
  hk_root_no_memory,  /* the system refuses memory for the search */
  hk_root_no_mappings /* the list of mappings cannot be read */
} hk_root_result_t;

/* Follows all roots. Leaves out the calling thread's stack below `frame`, devices, and files that are shared with other
 * processes. */
hk_root_result_t hk_root_follow_all(hk_reach_t *reach, uintptr_t frame, hk_root_threads_t *threads);

HK_C_END

#endif /* HK_INSPECT_ROOT_H */
