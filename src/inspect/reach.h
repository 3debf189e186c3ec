/* inspect/reach.h - L8. Which blocks a program can still reach: from words that it has, and from block to block.
 *
 * Any word that could be an address in a block is taken for one, of its inside too. What blocks there are is written
 * down first, by a survey; their contents the system copies. So the program may go on meanwhile: no lock is taken, and
 * nothing is believed that could lead astray. What moves behind the scan's back may be missed. One thread's.
 */
#ifndef HK_INSPECT_REACH_H
#define HK_INSPECT_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In mapped memory of its own: that of the blocks' marks, a bit for 16 bytes, is touched where there are blocks. */
typedef struct {
  unsigned char *memory;
  size_t memory_bytes;
  struct hk_reach_area *areas; /* by address */
  size_t area_count, area_capacity;
  struct hk_reach_unit *units;
  size_t unit_count, unit_capacity;
  uintptr_t *waiting; /* blocks that were reached and not yet looked into */
  size_t waiting_count, waiting_capacity;
  unsigned char *root_buffer, *block_buffer;
  uintptr_t window; /* what block_buffer holds, as small blocks are looked at */
  size_t window_bytes;
  size_t last_area; /* where the last address was found */
  uint64_t bytes_read, blocks_reached;
  uint64_t end_ms;
  bool (*may_go_on)(void); /* NULL: it may */
  bool is_stopped;         /* `may_go_on` has said no */
  bool is_cut_short;       /* for that, or for want of time or room */
} hk_reach_t;

/* Notes what blocks there are. The scan may take `most_ms` from now on, and goes on while `may_go_on` says so, which is
 * called before each 64 KiB at the latest; NULL: it does. False when the system refuses memory for it, or the program
 * has got more meanwhile than there is room for; nothing is to be ended then. */
bool hk_reach_begin(hk_reach_t *reach, uint64_t most_ms, bool (*may_go_on)(void));
void hk_reach_end(hk_reach_t *reach);

/* Of the block that the address lies in the program has what begins there, and nothing before: what is before is what
 * the memory held when it was free. For a power of two of bytes, and at least 16, behind the block's start. */
void hk_reach_narrow(hk_reach_t *reach, uintptr_t address);

/* Looks at the words of a range, whatever of it is there, and at all that they lead to. */
void hk_reach_from(hk_reach_t *reach, uintptr_t start, size_t bytes);

typedef enum {
  hk_reach_yes,
  hk_reach_no,
  hk_reach_unknown /* no block of those that were noted lies there */
} hk_reach_answer_t;

/* Whether the block that the address lies in was reached. Means something when the scan was not cut short. */
hk_reach_answer_t hk_reach_ask(const hk_reach_t *reach, uintptr_t address);

/* The first range from `address` on that is a block's, or could be, or the scan's own: no word in there is the
 * program's by itself. False when there is none. */
bool hk_reach_next_own(const hk_reach_t *reach, uintptr_t address, uintptr_t *start, uintptr_t *end);

#endif /* HK_INSPECT_REACH_H */
