/* inspect/reach.h - L8. Finds the blocks that a program can still reach: from words of its memory to blocks, and from
 * block to block.
 *
 * Every word that could be an address in a block, of its inside too, counts as a pointer to it. A survey first notes
 * all blocks. The kernel copies their contents. So the program may run meanwhile: the scan takes no lock, and checks
 * every value that it reads before it uses it. A pointer that moves during the scan may be missed. A hk_reach_t is
 * used by one thread.
 */
#ifndef HK_INSPECT_REACH_H
#define HK_INSPECT_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All arrays lie in one mapping. The blocks' marks, one bit for 16 bytes, become resident only where there are
 * blocks. */
typedef struct {
  unsigned char *memory;
  size_t memory_bytes;
  struct hk_reach_area *areas; /* in the order of addresses */
  size_t area_count, area_capacity;
  struct hk_reach_unit *units;
  size_t unit_count, unit_capacity;
  uintptr_t *waiting; /* blocks that were reached, and whose contents were not read yet */
  size_t waiting_count, waiting_capacity;
  unsigned char *root_buffer, *block_buffer;
  uintptr_t block_buffer_start; /* the memory from here on ... */
  size_t block_buffer_bytes;    /* ... is in block_buffer: this many bytes */
  size_t last_area;             /* the area in which the last address was found */
  uint64_t bytes_read, blocks_reached;
  uint64_t end_ms;
  bool (*may_go_on)(void); /* NULL: always true */
  bool is_stopped;         /* `may_go_on` returned false */
  bool is_cut_short;       /* stopped, out of time, or out of room */
} hk_reach_t;

/* Notes all blocks. The scan may take `most_ms` from now on. It calls `may_go_on` at least once for each 64 KiB that it
 * reads, and stops when that returns false; NULL means true. Returns false when the system refuses memory, or when the
 * program has added more blocks meanwhile than there is room for. Then hk_reach_end must not be called. */
bool hk_reach_begin(hk_reach_t *reach, uint64_t most_ms, bool (*may_go_on)(void));
void hk_reach_end(hk_reach_t *reach);

/* Returns whether the scan has time left, and may go on. Otherwise it is cut short from here on. */
bool hk_reach_goes_on(hk_reach_t *reach);

/* Excludes the bytes before `address` from the block that the address lies in: they hold what the memory held when it
 * was free. The distance from the block's start is a power of two, at least 16. */
void hk_reach_narrow(hk_reach_t *reach, uintptr_t address);

/* Reads the words of a range, without pages that cannot be read, and all blocks that they lead to. */
void hk_reach_from(hk_reach_t *reach, uintptr_t start, size_t bytes);

typedef enum {
  hk_reach_yes,
  hk_reach_no,
  hk_reach_unknown /* the address lies in no block that was noted */
} hk_reach_answer_t;

/* Returns whether the scan has reached the block that the address lies in. Valid when the scan was not cut short. */
hk_reach_answer_t hk_reach_has(const hk_reach_t *reach, uintptr_t address);

/* Finds the first range at or behind `address` that is a block, a free extent, or the scan's own memory. The words in
 * it are not roots. Returns false when there is none. */
bool hk_reach_next_own(const hk_reach_t *reach, uintptr_t address, uintptr_t *start, uintptr_t *end);

#endif /* HK_INSPECT_REACH_H */
