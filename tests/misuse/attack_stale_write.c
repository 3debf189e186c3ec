/* tests/misuse/attack_stale_write.c - Use after free by writing. */
#include "attack.h"

static byte_t *freed_block(size_t size) {
  take_many(some(size) / 6, size);
  byte_t *other = take(size), *block = take(size);
  take_many(some(size) / 6, size);
  drop(other);
  drop(block);
  return (byte_t *)forget(block);
}

/* The first word is the link of a free list with most allocators. */
static bool write_link(size_t size) {
  byte_t *block = freed_block(size), *chosen = target + 4096;
  memcpy(block, &chosen, sizeof chosen);
  return requests_give_target(some(size), size);
}

static bool write_second_word(size_t size) {
  byte_t *block = freed_block(size), *chosen = target + 4096;
  memcpy(block + 8, &chosen, sizeof chosen);
  return requests_give_target(some(size), size);
}

static bool write_both_words(size_t size) {
  byte_t *block = freed_block(size), *chosen = target + 4096;
  memcpy(block, &chosen, sizeof chosen);
  memcpy(block + 8, &chosen, sizeof chosen);
  return requests_give_target(some(size), size);
}

/* A counter or a flag of the object that is no more. */
static bool change_low_byte(size_t size) {
  byte_t *block = freed_block(size);
  block[0] += 0x20;
  return requests_give_target(some(size), size);
}

/* Bits of the link, by the decrement of a reference count. */
static bool decrement_link(size_t size) {
  byte_t *block = freed_block(size);
  --*(uint32_t *)block;
  return requests_give_target(some(size), size);
}

static bool write_link_of_delayed(size_t size) {
  byte_t *block = freed_block(size), *chosen = target + 4096;
  size_t count = many(size) / 4, first = live_count;
  take_many(count, size);
  while (live_count > first) drop(live[live_count - 1].start);
  memcpy(block, &chosen, sizeof chosen);
  return requests_give_target(2 * count, size);
}

/* Makes requests of two blocks at a time, and frees them. Returns whether one brings a block in the target, or one that
 * overlaps another. */
static bool pairs_give_target(size_t count, size_t size) {
  while (count-- > 0) {
    byte_t *first, *second;
    if (next_overlaps(size, &first) || is_target(first)) return true;
    if (next_overlaps(size, &second) || is_target(second)) return true;
    drop(second);
    drop(first);
  }
  return false;
}

/* The block may wait somewhere before it is in a list: then nothing there is a link yet. */
static bool write_link_of_waiting(size_t size) {
  byte_t *block = freed_block(size), *chosen = target + 4096;
  memcpy(block, &chosen, sizeof chosen);
  return pairs_give_target(1000, size);
}

static bool write_link_freed_elsewhere(size_t size) {
  take_many(8, size);
  byte_t *block = (byte_t *)malloc(size), *chosen = target + 4096;
  in_thread(free_once, block);
  memcpy(forget(block), &chosen, sizeof chosen);
  return requests_give_target(many(size), size);
}

/* Bytes that no link lies in: the next owner does not set all of its fields. */
static bool plant_contents(size_t size) {
  byte_t *block = freed_block(size);
  memset(block + 16, forged, size - 16);
  for (int i = 0; i < (int)some(size); i++) {
    byte_t *owner = take_raw(size);
    if (is_all(owner + 16, size - 16, forged)) return true;
  }
  return false;
}

static bool plant_last_byte(size_t size) {
  byte_t *block = freed_block(size);
  block[size - 1] = forged;
  for (int i = 0; i < (int)some(size); i++) {
    byte_t *owner = take_raw(size);
    if (owner[size - 1] == forged) return true;
  }
  return false;
}

static bool plant_in_calloc(size_t size) {
  byte_t *block = freed_block(size);
  memset(block + 16, forged, size - 16);
  for (int i = 0; i < (int)some(size); i++) {
    byte_t *owner = (byte_t *)calloc(1, size);
    if (owner == NULL || !is_all(owner, size, 0)) return owner != NULL;
  }
  return false;
}

/* All blocks of a size are freed, and their memory waits as a whole for later blocks of any size. */
static bool plant_after_all_frees(size_t size) {
  size_t count = many(size);
  take_many(count, size);
  byte_t *block = live[count / 2].start;
  drop_all();
  /* A word: where a link's seal lies, one byte may have this value already. */
  memset((byte_t *)forget(block) + size / 2 / 8 * 8, forged, 8);
  for (size_t i = 0; i < 2 * count; i++) {
    byte_t *owner = take_raw(size);
    if (owner[size / 2] == forged) return true;
  }
  return false;
}

/* All blocks of a size are freed, and their memory goes back to the system: a stale pointer writes to memory that looks
 * as if no block had ever been there. */
static bool plant_after_trim(size_t size) {
  size_t count = many(size);
  take_many(count, size);
  byte_t *block = live[count / 2].start;
  drop_all();
  int (*trim)(size_t) = (int (*)(size_t))(uintptr_t)dlsym(RTLD_DEFAULT, "malloc_trim"); /* musl has none */
  if (trim != NULL) (void)trim(0);
  ((byte_t *)forget(block))[size / 2] = forged;
  for (size_t i = 0; i < count; i++) {
    byte_t *owner = take_raw(size);
    if (owner[size / 2] == forged) return true;
  }
  return false;
}

/* The next owner's data. */
static bool change_next_owner(size_t size) {
  byte_t *block = freed_block(size);
  (void)take(size);
  memset(block + size / 2, forged, size / 2);
  return any_changed(NULL);
}

/* The first thread asks until it gets the block that another thread freed. */
static bool change_owner_freed_elsewhere(size_t size) {
  take_many(8, size);
  byte_t *block = (byte_t *)malloc(size);
  in_thread(free_once, block);
  take_many(some(size), size);
  memset(forget(block), forged, size / 2);
  return any_changed(NULL);
}

static bool change_any_later_owner(size_t size) {
  byte_t *block = freed_block(size);
  take_many(many(size), size);
  memset(block + size / 2, forged, size / 2);
  return any_changed(NULL);
}

static bool change_after_realloc(size_t size) {
  byte_t *block = (byte_t *)malloc(size);
  take_many(4, size);
  byte_t *moved = (byte_t *)realloc(block, 8 * size);
  if (moved == forget(block)) return false;
  take_many(4, size);
  memset(forget(block), forged, size);
  return any_changed(NULL);
}

ATTACKS({"write_link", write_link}, {"write_second_word", write_second_word}, {"write_both_words", write_both_words},
        {"change_low_byte", change_low_byte}, {"decrement_link", decrement_link},
        {"write_link_of_delayed", write_link_of_delayed}, {"write_link_of_waiting", write_link_of_waiting},
        {"write_link_freed_elsewhere", write_link_freed_elsewhere}, {"plant_contents", plant_contents},
        {"plant_last_byte", plant_last_byte}, {"plant_in_calloc", plant_in_calloc},
        {"plant_after_all_frees", plant_after_all_frees}, {"plant_after_trim", plant_after_trim},
        {"change_next_owner", change_next_owner}, {"change_owner_freed_elsewhere", change_owner_freed_elsewhere},
        {"change_any_later_owner", change_any_later_owner}, {"change_after_realloc", change_after_realloc})
