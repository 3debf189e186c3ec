/* tests/misuse/attack_stale_read.c - Use after free by reading. */
#include "attack.h"

static byte_t *take_secret(size_t size) {
  take_many(4, size);
  byte_t *block = (byte_t *)malloc(size);
  memset(block, secret, size);
  return block;
}

static bool read_at_once(size_t size) {
  byte_t *block = take_secret(size);
  free(block);
  return shows((byte_t *)forget(block), size, secret);
}

static bool read_later(size_t size) {
  byte_t *block = take_secret(size);
  free(block);
  for (int i = 0; i < 16; i++) drop(take(size + size / 2 + 64));
  take_many(4, 64);
  return shows((byte_t *)forget(block), size, secret);
}

static bool read_after_other_thread_freed(size_t size) {
  byte_t *block = take_secret(size);
  in_thread(free_once, block);
  return shows((byte_t *)forget(block), size, secret);
}

/* The victim's next request gets the block, and its secret is read by the stale pointer. */
static bool read_next_owner(size_t size) {
  byte_t *block = (byte_t *)malloc(size);
  memset(block, mine, size);
  free(block);
  byte_t *owner = (byte_t *)malloc(size);
  memset(owner, secret, size);
  return shows((byte_t *)forget(block), size, secret);
}

static bool read_after_realloc(size_t size) {
  byte_t *block = take_secret(size);
  take_many(4, size);
  byte_t *moved = (byte_t *)realloc(block, 8 * size);
  if (moved == forget(block)) return false;
  return shows((byte_t *)forget(block), size, secret);
}

/* What the allocator writes into free blocks tells where the heap is. */
static bool read_heap_address(size_t size) {
  enum { count = 16 };
  byte_t *block[count];
  for (int i = 0; i < count; i++) block[i] = (byte_t *)malloc(size);
  for (int i = 0; i < count; i++) memset(block[i], 0, size);
  for (int i = 0; i < count; i++) free(block[i]);
  for (int i = 0; i < count; i++) {
    uintptr_t *words = (uintptr_t *)forget(block[i]);
    for (size_t k = 0; k < 2; k++) {
      uintptr_t distance = words[k] - (uintptr_t)block[0] + (1 << 24);
      if (distance < (1 << 25)) return true;
    }
  }
  return false;
}

typedef struct {
  uintptr_t words[2];
  void (*act)(void);
} object_t;
static bool acted;
static void act(void) { acted = true; }

/* An object's method is called after its free. */
static bool call_stale_method(size_t size) {
  object_t *object = (object_t *)malloc(size);
  memset(object, 0, sizeof *object);
  object->act = act;
  free(object);
  object = (object_t *)forget(object);
  object->act();
  return acted;
}

/* As a table of methods in the first word. */
static bool call_by_stale_table(size_t size) {
  static void (*const table[])(void) = {act};
  void (*const **object)(void) = (void (*const **)(void))malloc(size);
  *object = table;
  free(object);
  object = (void (*const **)(void))forget(object);
  (*object)[0]();
  return acted;
}

static bool compare_stale_token(size_t size) {
  byte_t *session = (byte_t *)malloc(size);
  memset(session, 0, size);
  session[size - 1] = 1; /* is an administrator's */
  free(session);
  take_many(8, size == 24 ? 1000 : 24);
  return ((byte_t *)forget(session))[size - 1] == 1;
}

/* The C library's own reads, with the stale pointer as an argument. */
static bool copy_stale_string(size_t size) {
  char *text = (char *)malloc(size);
  memset(text, 'x', size - 1);
  text[size - 1] = 0;
  free(text);
  char *copy = strdup((char *)forget(text) + 16);
  return copy != NULL && strlen(copy) == size - 17;
}

ATTACKS({"read_at_once", read_at_once}, {"read_later", read_later},
        {"read_after_other_thread_freed", read_after_other_thread_freed}, {"read_next_owner", read_next_owner},
        {"read_after_realloc", read_after_realloc}, {"read_heap_address", read_heap_address},
        {"call_stale_method", call_stale_method}, {"call_by_stale_table", call_by_stale_table},
        {"compare_stale_token", compare_stale_token}, {"copy_stale_string", copy_stale_string})
