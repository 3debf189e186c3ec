/* tests/misuse/attack_underflow.c - Writes and reads before the start of a live block. */
#include "attack.h"

enum { row_count = 64 };
static byte_t *row[row_count];
static size_t full;

static byte_t *take_row(size_t size) {
  size_t count = size > 100000 ? 8 : row_count;
  full = full_size(size);
  for (size_t i = 0; i < count; i++) row[i] = take(full);
  return row[count / 2];
}

static bool write_to_neighbour(size_t size) {
  byte_t *block = take_row(size);
  memset(block - 40, forged, 40);
  return any_changed(block);
}

/* The word before the block: where many allocators keep a header or a canary. Its damage shows at a free. */
static bool write_word_before(size_t size) {
  byte_t *block = take_row(size);
  memset(block - 8, forged, 8);
  bool changed = any_changed(block);
  if (changed) return true;
  drop_all();
  return requests_give_target(row_count, full);
}

static bool write_used_after_free(size_t size) {
  byte_t *block = take_row(size);
  memset(block - 24, forged, 24);
  drop(block);
  return any_changed(NULL);
}

static bool write_far(size_t size) {
  take_many(many(size), full_size(size));
  byte_t *block = take_row(size);
  memset(block - 4096 - 64, forged, 8);
  return any_changed(block);
}

static bool read_neighbour(size_t size) {
  byte_t *block = take_row(size);
  return shows(block - full - 64, full + 64, mine);
}

static bool read_freed_neighbour(size_t size) {
  byte_t *block = take_row(size);
  memset(block, 0, full);
  for (size_t i = 0; i < row_count && row[i] != NULL; i++) {
    if (row[i] != block) drop(row[i]);
  }
  return shows(block - full - 64, full + 64, mine);
}

/* The block before is free; the write goes through it to its first word. */
static bool write_to_free_list(size_t size) {
  byte_t *block = take_row(size);
  byte_t *before = NULL;
  for (size_t i = 0; i < live_count; i++) {
    byte_t *other = live[i].start;
    if (other < block && other > before) before = other;
  }
  if (before == NULL || (size_t)(block - before) > full + 64) return false;
  drop(before);
  byte_t *chosen = target + 4096;
  memset(before + sizeof chosen, forged, (size_t)(block - before) - sizeof chosen);
  memcpy(before, &chosen, sizeof chosen);
  return requests_give_target(row_count, full);
}

/* The lowest block of many: before it lies what the allocator has at the start of a slab. */
static bool write_before_first(size_t size) {
  take_many(many(size), size);
  byte_t *lowest = live[0].start;
  for (size_t i = 1; i < live_count; i++) lowest = live[i].start < lowest ? live[i].start : lowest;
  memset(lowest - 64, forged, 64);
  if (any_changed(NULL)) return true;
  drop_all();
  return requests_give_target(many(size), size);
}

ATTACKS({"write_to_neighbour", write_to_neighbour}, {"write_word_before", write_word_before},
        {"write_used_after_free", write_used_after_free}, {"write_far", write_far}, {"read_neighbour", read_neighbour},
        {"read_freed_neighbour", read_freed_neighbour}, {"write_to_free_list", write_to_free_list},
        {"write_before_first", write_before_first})
