/* tests/misuse/attack_uninitialised.c - Reads of memory that the program has not written yet: they show what lay there
 * before. */
#include "attack.h"

/* Frees blocks that a secret filled. */
static void leave_secrets(size_t count, size_t size) {
  static byte_t *blocks[live_max];
  for (size_t i = 0; i < count; i++) {
    blocks[i] = (byte_t *)malloc(size);
    memset(blocks[i], secret, size);
  }
  for (size_t i = 0; i < count; i++) free(blocks[i]);
}

static bool shows_in_new(size_t count, size_t size) {
  for (size_t i = 0; i < count; i++) {
    if (shows(take_raw(size), size, secret)) return true;
  }
  return false;
}

static bool same_size(size_t size) {
  leave_secrets(16, size);
  return shows_in_new(16, size);
}

/* What the next request gets, when one block was freed. */
static bool next_request(size_t size) {
  take_many(8, size);
  leave_secrets(1, size);
  return shows_in_new(1, size);
}

static bool smaller_size(size_t size) {
  leave_secrets(many(size), size);
  return shows_in_new(many(size / 8), size / 8);
}

static bool larger_size(size_t size) {
  leave_secrets(many(size), size);
  return shows_in_new(many(8 * size), 8 * size);
}

static bool realloc_tail(size_t size) {
  leave_secrets(16, size);
  byte_t *block = (byte_t *)malloc(size / 8);
  memset(block, mine, size / 8);
  block = (byte_t *)realloc(block, size);
  return block != NULL && shows(block + size / 8, size - size / 8, secret);
}

static bool aligned_block(size_t size) {
  void *block[16];
  for (int i = 0; i < 16; i++) {
    if (posix_memalign(&block[i], 128, size) != 0) _exit(91);
    memset(block[i], secret, size);
  }
  for (int i = 0; i < 16; i++) free(block[i]);
  for (int i = 0; i < 16; i++) {
    if (posix_memalign(&block[i], 128, size) != 0) _exit(91);
    if (shows((byte_t *)block[i], size, secret)) return true;
  }
  return false;
}

static void *leave_secrets_and_end(void *size) {
  leave_secrets(16, *(size_t *)size);
  return NULL;
}

static bool of_ended_thread(size_t size) {
  in_thread(leave_secrets_and_end, &size);
  return shows_in_new(many(size), size);
}

static void *look_in_thread(void *size) {
  for (size_t i = 0; i < 64; i++) {
    byte_t *block = (byte_t *)malloc(*(size_t *)size);
    if (shows(block, *(size_t *)size, secret)) say_outcome("reached\n");
  }
  return NULL;
}

static bool in_new_thread(size_t size) {
  leave_secrets(16, size);
  in_thread(look_in_thread, &size);
  return false;
}

/* The allocator's own words in a new block tell where the heap is. */
static bool heap_address(size_t size) {
  uintptr_t home = (uintptr_t)take(size);
  take_many(8, size);
  leave_secrets(16, size);
  for (int i = 0; i < 16; i++) {
    const uintptr_t *words = (const uintptr_t *)take_raw(size);
    for (size_t k = 0; k < size / sizeof *words; k++) {
      if (words[k] - home + (1 << 24) < (1 << 25)) return true;
    }
  }
  return false;
}

/* calloc's contents must be zero, whatever the memory was before. */
static bool in_calloc(size_t size) {
  leave_secrets(some(size) / 2, size);
  for (size_t i = 0; i < some(size) / 2; i++) {
    byte_t *block = (byte_t *)calloc(1, size);
    if (block == NULL || !is_all(block, size, 0)) return true;
  }
  return false;
}

/* Bytes between the end of the request and that of the block: a program may send a whole structure with its padding. */
static bool behind_request(size_t size) {
  leave_secrets(16, size);
  for (int i = 0; i < 16; i++) {
    byte_t *block = take_raw(size - size / 8);
    size_t usable = malloc_usable_size(block);
    memset(block, mine, size - size / 8);
    for (size_t k = size - size / 8; k < usable; k++) {
      if (block[k] == secret) return true;
    }
  }
  return false;
}

ATTACKS({"same_size", same_size}, {"next_request", next_request}, {"smaller_size", smaller_size},
        {"larger_size", larger_size}, {"realloc_tail", realloc_tail}, {"aligned_block", aligned_block},
        {"of_ended_thread", of_ended_thread}, {"in_new_thread", in_new_thread}, {"heap_address", heap_address},
        {"in_calloc", in_calloc}, {"behind_request", behind_request})
