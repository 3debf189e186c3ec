/* tests/misuse/attack_forgery.c - Metadata that the attacker writes as the allocator would have. Stale pointers write
 * it, and read what it takes: the attacks know how free lists of hakmem, glibc and others are made. */
#include "attack.h"

enum { freed_max = 16 };
static byte_t *freed[freed_max];

/* Frees `count` blocks, the last of which a list that is used as a stack hands out first. */
static void free_some(size_t count, size_t size) {
  take_many(8, size);
  for (size_t i = 0; i < count; i++) freed[i] = take(size);
  take_many(8, size);
  for (size_t i = 0; i < count; i++) drop(freed[i]);
  for (size_t i = 0; i < count; i++) freed[i] = (byte_t *)forget(freed[i]);
}

/* A pair of words whose exclusive-or is a secret: one pair that is read gives the secret away. */
static bool link_with_read_secret(size_t size) {
  free_some(4, size);
  uintptr_t *words = (uintptr_t *)freed[3], chosen = (uintptr_t)(target + 4096);
  uintptr_t key = words[0] ^ words[1];
  *(uintptr_t *)(target + 4096) = 0;
  *(uintptr_t *)(target + 4096 + 8) = key;
  words[0] = chosen;
  words[1] = chosen ^ key;
  return requests_give_target(64, size);
}

/* A link that is mangled with the address of its own place, as glibc does. */
static bool link_mangled_by_place(size_t size) {
  free_some(4, size);
  uintptr_t *words = (uintptr_t *)freed[3], chosen = (uintptr_t)(target + 4096);
  words[0] = (uintptr_t)words >> 12 ^ chosen;
  return requests_give_target(64, size);
}

/* The secret of a mangled link from one whose plain value is known. */
static bool link_mangled_by_read_key(size_t size) {
  free_some(4, size);
  uintptr_t *words = (uintptr_t *)freed[3], chosen = (uintptr_t)(target + 4096);
  words[0] ^= (uintptr_t)freed[2] ^ chosen;
  return requests_give_target(64, size);
}

/* The words of one free block, copied to another. */
static bool copy_link(size_t size) {
  free_some(8, size);
  memcpy(freed[4], freed[6], 16);
  return requests_give_target(64, size);
}

/* A link that was good once: the block it leads to is in use again. */
static bool replay_old_link(size_t size) {
  byte_t kept[16];
  free_some(4, size);
  memcpy(kept, freed[3], sizeof kept);
  for (int i = 0; i < 4; i++) (void)take_raw(size);
  byte_t *first = (byte_t *)forget(freed[3]);
  memset(freed[2], mine, size);
  drop(first);
  memcpy(forget(first), kept, sizeof kept);
  return requests_give_target(64, size);
}

/* As before; and the attacker, who owns the block that the link leads to, has written a good pair there. */
static bool replay_to_prepared(size_t size) {
  byte_t kept[16], end[16];
  free_some(4, size);
  memcpy(kept, freed[3], sizeof kept);
  memcpy(end, freed[2], sizeof end);
  for (int i = 0; i < 4; i++) (void)take_raw(size);
  byte_t *first = (byte_t *)forget(freed[3]);
  memcpy(freed[2], end, sizeof end);
  drop(first);
  memcpy(forget(first), kept, sizeof kept);
  return requests_give_target(64, size);
}

/* The words of a free block of another size: a small block is handed out for a large one. */
static bool link_to_other_size(size_t size) {
  size_t other = 4 * size;
  free_some(4, size);
  byte_t *small = freed[3];
  byte_t *lower = freed[2];
  free_some(4, other);
  memcpy(freed[3], small, 16);
  for (int i = 0; i < 64; i++) {
    byte_t *block = take_raw(other);
    if (block == lower) return true;
  }
  return false;
}

/* The words of a free block, written into one that is in use: it must not be taken for free. */
static bool live_looks_free(size_t size) {
  free_some(4, size);
  byte_t *block = take(size);
  memcpy(block, freed[1], 16);
  drop(block);
  return requests_give_target(64, size);
}

static bool guess_secret(size_t size) {
  free_some(4, size);
  uintptr_t *words = (uintptr_t *)freed[3], chosen = (uintptr_t)(target + 4096);
  words[0] = chosen;
  words[1] = chosen ^ ((uintptr_t)0xd6e9 << 48 | 0x123456789abc);
  return requests_give_target(64, size);
}

/* The size before a live block, of which glibc's free makes a larger one. */
static bool grow_by_header(size_t size) {
  byte_t *block = take(size);
  take_many(5, size);
  size_t chunk = (size + 8 + 15) & ~(size_t)15;
  ((uintptr_t *)block)[-1] = 2 * chunk | 1;
  drop(block);
  return requests_give_target(16, 2 * chunk - 8);
}

/* The size after a full block's end, by an overflow of one byte. */
static bool grow_by_one_byte(size_t size) {
  byte_t *block = take_full(size), *next = take_full(size);
  size_t full = full_size(size);
  take_many(4, size);
  block[full] = (byte_t)(2 * (full + 8) | 1);
  drop(next);
  return requests_give_target(16, 2 * (full + 8) - 8);
}

/* Links of a doubly linked list whose removal writes to an address of the attacker's choice. */
static bool unlink_writes(size_t size) {
  free_some(8, size);
  memset(target, 0, 8192);
  uintptr_t *words = (uintptr_t *)freed[3];
  words[0] = (uintptr_t)(target + 4096 - 24);
  words[1] = (uintptr_t)(target + 4096 - 16);
  take_many(16, size);
  drop_all();
  take_many(16, 2 * size);
  return !is_all(target + 4096 - 32, 64, 0);
}

/* Overwrites what lies at the addresses below a block that slabs, segments and heaps are aligned to. */
static bool overwrite_aligned(size_t size, size_t alignment) {
  take_many(100, size);
  byte_t *place = (byte_t *)((uintptr_t)live[50].start & ~(uintptr_t)(alignment - 1));
  for (size_t i = 0; i < live_count; i++) {
    if (live[i].start < place + 256 && live[i].start + live[i].size > place)
      return false; /* a block of the program's */
  }
  memset(place, forged, 256);
  if (any_changed(NULL)) return true;
  for (int i = 0; i < 50; i++) drop(live[0].start);
  return requests_give_target(many(size), size);
}
static bool header_of_page(size_t size) { return overwrite_aligned(size, 4096); }
static bool header_of_slab(size_t size) { return overwrite_aligned(size, 65536); }
static bool header_of_megabyte(size_t size) { return overwrite_aligned(size, (size_t)1 << 20); }
static bool header_of_segment(size_t size) { return overwrite_aligned(size, (size_t)4 << 20); }
static bool header_of_large_segment(size_t size) { return overwrite_aligned(size, (size_t)32 << 20); }

/* The page before a large block. */
static bool header_of_large(size_t size) {
  byte_t *block = take(size);
  memset(block - 64, forged, 64);
  if (any_changed(NULL)) return true;
  drop(block);
  return requests_give_target(8, size);
}

ATTACKS({"link_with_read_secret", link_with_read_secret}, {"link_mangled_by_place", link_mangled_by_place},
        {"link_mangled_by_read_key", link_mangled_by_read_key}, {"copy_link", copy_link},
        {"replay_old_link", replay_old_link}, {"replay_to_prepared", replay_to_prepared},
        {"link_to_other_size", link_to_other_size}, {"live_looks_free", live_looks_free},
        {"guess_secret", guess_secret}, {"grow_by_header", grow_by_header}, {"grow_by_one_byte", grow_by_one_byte},
        {"unlink_writes", unlink_writes}, {"header_of_page", header_of_page}, {"header_of_slab", header_of_slab},
        {"header_of_megabyte", header_of_megabyte}, {"header_of_segment", header_of_segment},
        {"header_of_large_segment", header_of_large_segment}, {"header_of_large", header_of_large})
