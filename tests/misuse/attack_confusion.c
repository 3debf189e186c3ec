/* tests/misuse/attack_confusion.c - Type and size confusion: one pointer, two ideas of what lies there. */
#include "attack.h"

typedef struct {
  uintptr_t words[2];
  void (*act)(void);
} object_t;

static bool acted_for_attacker;
static void act(void) {}
static void act_for_attacker(void) { acted_for_attacker = true; }

/* The attacker's buffer of the same size takes the place of an object that a stale pointer still calls. */
static bool buffer_for_object(size_t size, size_t tries) {
  object_t *object = (object_t *)malloc(size);
  object->act = act;
  free(object);
  object = (object_t *)forget(object);
  for (size_t i = 0; i < tries; i++) {
    object_t *buffer = (object_t *)take_raw(size);
    memset(buffer, forged, size);
    buffer->act = act_for_attacker;
  }
  object->act();
  return acted_for_attacker;
}
static bool one_buffer_for_object(size_t size) { return buffer_for_object(size, 1); }
static bool many_buffers_for_object(size_t size) { return buffer_for_object(size, 64); }

/* The memory of a slab of one size serves another, while a stale pointer is left. */
static bool slab_serves(size_t size, size_t other) {
  static byte_t *stale[live_max];
  size_t count = many(size);
  for (size_t i = 0; i < count; i++) stale[i] = (byte_t *)malloc(size);
  for (size_t i = 0; i < count; i++) memset(stale[i], 0, size);
  for (size_t i = 0; i < count; i++) free(stale[i]);
  take_many(many(other), other);
  for (size_t i = 0; i < count; i++) {
    byte_t *block = (byte_t *)forget(stale[i]);
    for (size_t k = 0; k < live_count; k++) {
      if (block >= live[k].start && block < live[k].start + live[k].size) return block[size / 2] == mine;
    }
  }
  return false;
}
static bool slab_of_other_size(size_t size) { return slab_serves(size, size > 2048 ? 512 : 4000); }
static bool slab_of_larger_size(size_t size) { return slab_serves(size, 8 * size); }

/* A free that tells another size than the block has. */
typedef void sized_t(void *, size_t);
typedef void sized_aligned_t(void *, size_t, size_t);

static bool wrong_size(const char *name, size_t size, size_t told) {
  sized_t *free_with_size = (sized_t *)(uintptr_t)dlsym(RTLD_DEFAULT, name);
  take_many(8, size);
  byte_t *block = take(size);
  take_many(8, size);
  leave(block);
  if (free_with_size == NULL) return false;
  free_with_size(forget(block), told);
  if (requests_give_target(64, told)) return true;
  return requests_give_target(64, size);
}
static bool delete_smaller(size_t size) { return wrong_size("_ZdlPvm", size, size / 8); }
static bool delete_larger(size_t size) { return wrong_size("_ZdlPvm", size, 8 * size); }
static bool free_sized_smaller(size_t size) { return wrong_size("free_sized", size, size / 8); }
static bool free_sized_larger(size_t size) { return wrong_size("free_sized", size, 8 * size); }

static bool delete_wrong_alignment(size_t size) {
  sized_aligned_t *delete_aligned = (sized_aligned_t *)(uintptr_t)dlsym(RTLD_DEFAULT, "_ZdlPvmSt11align_val_t");
  take_many(8, size);
  byte_t *block = take(size);
  leave(block);
  if (delete_aligned == NULL) return false;
  delete_aligned(forget(block), size, (size_t)1 << 20);
  return requests_give_target(64, size);
}

static bool delete_freed(size_t size) {
  sized_t *free_with_size = (sized_t *)(uintptr_t)dlsym(RTLD_DEFAULT, "_ZdlPvm");
  take_many(8, size);
  byte_t *block = take(size);
  drop(block);
  if (free_with_size == NULL) return false;
  free_with_size(forget(block), size);
  return requests_give_target(64, size);
}

/* Sizes that wrap to small ones. */
static bool got_too_little(void *block) { return block != NULL; }
static bool malloc_of_all(size_t size) { return got_too_little(malloc(SIZE_MAX - size)); }
static bool malloc_of_half(size_t size) { return got_too_little(malloc(SIZE_MAX / 2 + size)); }
static bool calloc_wraps(size_t size) { return got_too_little(calloc(SIZE_MAX / size + 2, size)); }
static bool reallocarray_wraps(size_t size) {
  return got_too_little(reallocarray(take(size), SIZE_MAX / size + 2, size));
}
static bool realloc_wraps(size_t size) { return got_too_little(realloc(take(size), SIZE_MAX - 8)); }
static bool memalign_wraps(size_t size) { return got_too_little(memalign(65536, SIZE_MAX - size)); }
static bool valloc_wraps(size_t size) { return got_too_little(valloc(SIZE_MAX - size)); }

/* A block of no bytes. */
static bool write_to_nothing(size_t size) {
  take_many(16, 1);
  byte_t *block = (byte_t *)malloc(0);
  take_many(16, 1);
  if (block == NULL) return false;
  memset(forget(block), forged, size);
  return true;
}

static bool read_from_nothing(size_t size) {
  byte_t *block = (byte_t *)malloc(0);
  if (block == NULL) return false;
  volatile byte_t *bytes = (volatile byte_t *)forget(block);
  byte_t sum = 0;
  for (size_t i = 0; i < size; i++) sum |= bytes[i];
  return true;
}

/* The program takes the size of an address that is no live block, and would write to that many bytes. */
static bool size_of_freed(size_t size) {
  byte_t *block = take(size);
  drop(block);
  return malloc_usable_size(forget(block)) >= size;
}

static bool size_of_interior(size_t size) {
  byte_t *block = take(size);
  return malloc_usable_size(forget(block + 16)) > malloc_usable_size(block) - 16;
}

ATTACKS({"one_buffer_for_object", one_buffer_for_object}, {"many_buffers_for_object", many_buffers_for_object},
        {"slab_of_other_size", slab_of_other_size}, {"slab_of_larger_size", slab_of_larger_size},
        {"delete_smaller", delete_smaller}, {"delete_larger", delete_larger},
        {"free_sized_smaller", free_sized_smaller}, {"free_sized_larger", free_sized_larger},
        {"delete_wrong_alignment", delete_wrong_alignment}, {"delete_freed", delete_freed},
        {"malloc_of_all", malloc_of_all}, {"malloc_of_half", malloc_of_half}, {"calloc_wraps", calloc_wraps},
        {"reallocarray_wraps", reallocarray_wraps}, {"realloc_wraps", realloc_wraps},
        {"memalign_wraps", memalign_wraps}, {"valloc_wraps", valloc_wraps}, {"write_to_nothing", write_to_nothing},
        {"read_from_nothing", read_from_nothing}, {"size_of_freed", size_of_freed},
        {"size_of_interior", size_of_interior})
