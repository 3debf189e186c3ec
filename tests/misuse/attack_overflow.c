/* tests/misuse/attack_overflow.c - Writes and reads beyond the end of a live block. */
#include "attack.h"

enum { row_count = 64 };
static byte_t *row[row_count];
static size_t full; /* bytes of a block of the row, all of which the program may use */

/* Takes blocks in a row, and returns one of the middle. */
static byte_t *take_row(size_t size) {
  size_t count = size > 100000 ? 8 : row_count;
  full = full_size(size);
  for (size_t i = 0; i < count; i++) row[i] = take(full);
  return row[count / 2 - 1];
}

static bool write_to_neighbour(size_t size) {
  byte_t *block = take_row(size);
  memset(block + full, forged, 24);
  return any_changed(block);
}

static bool write_used_after_free(size_t size) {
  byte_t *block = take_row(size);
  memset(block + full, forged, 24);
  drop(block);
  return any_changed(NULL);
}

static bool write_one_byte(size_t size) {
  byte_t *block = take_row(size);
  block[full] = 0;
  return any_changed(block);
}

static bool write_one_byte_forged(size_t size) {
  byte_t *block = take_row(size);
  block[full] = forged;
  drop(block);
  return any_changed(NULL);
}

static bool write_long(size_t size) {
  byte_t *block = take_row(size);
  memset(block + full, forged, 3 * full + 48);
  drop(block);
  return any_changed(NULL);
}

/* The attacker has read what lies behind the block, and writes the same bytes: a canary stays as it was. */
static bool write_around_read_bytes(size_t size) {
  byte_t *block = take_row(size), kept[16];
  memcpy(kept, block + full, sizeof kept);
  memcpy(block + full, kept, sizeof kept);
  memset(block + full + sizeof kept, forged, 16);
  drop(block);
  return any_changed(NULL);
}

/* An index out of bounds: a jump over what lies directly behind the block. */
static bool write_far(size_t size) {
  take_many(many(size), full_size(size));
  byte_t *block = take_row(size);
  for (size_t far = 1; far <= 4; far++) {
    memset(block + far * 4096 + 64, forged, 8);
    if (any_changed(block)) return true;
    memset(block - far * 4096 + 64, forged, 8);
    if (any_changed(block)) return true;
  }
  return false;
}

/* Returns the live block that follows directly. NULL where a stranger lies between. */
static byte_t *behind(const byte_t *block) {
  byte_t *next = NULL;
  for (size_t i = 0; i < live_count; i++) {
    byte_t *other = live[i].start;
    if (other > block && (next == NULL || other < next)) next = other;
  }
  return next != NULL && (size_t)(next - block) <= full + 64 ? next : NULL;
}

/* The block behind is free, and holds what the allocator writes into free blocks. */
static bool write_to_free_list(size_t size) {
  byte_t *block = take_row(size), *next = behind(block), *chosen = target + 4096;
  if (next == NULL) return false;
  size_t gap = (size_t)(next - block);
  drop(next);
  memset(block + full, 0, gap - full);
  memcpy(block + gap, &chosen, sizeof chosen);
  return requests_give_target(row_count, full);
}

/* The lowest byte of the link alone: no address has to be known. */
static bool write_low_byte_of_link(size_t size) {
  byte_t *block = take_row(size), *next = behind(block);
  if (next == NULL) return false;
  for (int i = 0; i < 4; i++) {
    if (row[i] != block && row[i] != next) drop(row[i]);
  }
  drop(next);
  memset(block + full, 0, (size_t)(next - block) - full);
  next[0] ^= 0x20;
  return requests_give_target(row_count, full);
}

/* Memory behind the last block that was never handed out, and that calloc may take for zero. */
static bool write_then_calloc(size_t size) {
  byte_t *block = take_full(size);
  full = full_size(size);
  memset(block + full, forged, full + 32);
  for (size_t i = 0; i < row_count; i++) {
    byte_t *zeroed = (byte_t *)calloc(1, size);
    if (zeroed == NULL) return false;
    if (!is_all(zeroed, size, 0)) return true;
  }
  return false;
}

/* A string that fills its block and has no end of its own. */
static bool read_string(size_t size) {
  byte_t *block = take_row(size);
  size_t length = strlen((const char *)block);
  return length > full && shows(block + full, length - full, mine);
}

static bool read_neighbour(size_t size) {
  byte_t *block = take_row(size);
  return shows(block + full, full + 64, mine);
}

/* What the neighbour held before its free. */
static bool read_freed_neighbour(size_t size) {
  byte_t *block = take_row(size);
  memset(block, 0, full);
  for (size_t i = 0; i < row_count && row[i] != NULL; i++) {
    if (row[i] != block) drop(row[i]);
  }
  return shows(block + full, full + 64, mine);
}

/* realloc shrinks a block, and the program writes on where the block had its end before. */
static bool write_behind_shrunk(size_t size) {
  byte_t *block = (byte_t *)malloc(size);
  memset(block, mine, size);
  block = (byte_t *)realloc(block, size / 4);
  size_t length = malloc_usable_size(block);
  if (length >= size) length = size / 4;
  take_many(16, size / 4);
  memset(block + length, forged, size - length);
  return any_changed(block);
}

ATTACKS({"write_to_neighbour", write_to_neighbour}, {"write_used_after_free", write_used_after_free},
        {"write_one_byte", write_one_byte}, {"write_one_byte_forged", write_one_byte_forged},
        {"write_long", write_long}, {"write_around_read_bytes", write_around_read_bytes}, {"write_far", write_far},
        {"write_to_free_list", write_to_free_list}, {"write_low_byte_of_link", write_low_byte_of_link},
        {"write_then_calloc", write_then_calloc}, {"read_string", read_string}, {"read_neighbour", read_neighbour},
        {"read_freed_neighbour", read_freed_neighbour}, {"write_behind_shrunk", write_behind_shrunk})
