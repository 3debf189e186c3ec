/* inspect/root.h - L8. Where a program's own pointers are, apart from its blocks: in all memory that it can write to,
 * stacks, static and thread-local data among it, and in what it wrote once and has only read since; and what threads
 * have in registers. Not in what is the allocator's. */
#ifndef HK_INSPECT_ROOT_H
#define HK_INSPECT_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "inspect/reach.h"

HK_C_BEGIN

/* Of the threads beside the calling one, how many there were, and of how many the words that they have in registers
 * were looked at: those that wait in a system call, of what they gave to it. Of a register that only keeps what it has
 * nobody can ask without disturbing. */
typedef struct {
  bool is_known; /* the system says what threads there are */
  uint64_t others;
  uint64_t asked;
} hk_root_threads_t;

typedef enum {
  hk_root_followed,
  hk_root_no_memory,  /* the system refuses memory for the search */
  hk_root_no_mappings /* the list of mappings cannot be read */
} hk_root_result_t;

/* Follows what is found there. `frame`: below that address the calling thread's stack is of no interest. Files that are
 * shared with others, and devices, are left out. */
hk_root_result_t hk_root_follow_all(hk_reach_t *reach, uintptr_t frame, hk_root_threads_t *threads);

HK_C_END

#endif /* HK_INSPECT_ROOT_H */
