/* tests/misuse/attack_spray.c - Heap spraying and grooming: the attacker brings a block of its own to a place that
 * matters, by requests and frees alone. */
#include "attack.h"

/* Returns whether `find` finds the same in this process and in a second one, which runs the same attack and only tells
 * what it has found. */
static bool is_predictable(const char *name, uintptr_t (*find)(size_t), size_t size) {
  uintptr_t found = find(size), found_there = 0;
  if (getenv("ATTACK_TELLS") != NULL) {
    _exit(write(STDOUT_FILENO, &found, sizeof found) == sizeof found ? 0 : 95);
  }
  int ends[2];
  char argument[32];
  (void)snprintf(argument, sizeof argument, "%zu", size);
  if (pipe(ends) != 0) _exit(91);
  pid_t child = fork();
  if (child < 0) _exit(92);
  if (child == 0) {
    (void)dup2(ends[1], STDOUT_FILENO);
    (void)setenv("ATTACK_TELLS", "1", 1);
    execl("/proc/self/exe", "attack_spray", name, argument, (char *)NULL);
    _exit(93);
  }
  if (read(ends[0], &found_there, sizeof found_there) != sizeof found_there) _exit(94);
  return found == found_there;
}

static uintptr_t first_address(size_t size) { return (uintptr_t)malloc(size); }
static bool same_address(size_t size) { return is_predictable("same_address", first_address, size); }

/* A large spray, in the middle of which an address can be guessed. */
static uintptr_t middle_of_spray(size_t size) {
  uintptr_t middle = 0;
  for (int i = 0; i < 64; i++) {
    void *block = malloc(size);
    if (i == 32) middle = (uintptr_t)block >> 24;
  }
  return middle;
}
static bool same_spray(size_t size) { return is_predictable("same_spray", middle_of_spray, size); }

/* The distances of blocks: the layout is the same in each process. */
static uintptr_t distances(size_t size) {
  uintptr_t sum = 0, last = (uintptr_t)malloc(size);
  for (int i = 0; i < 32; i++) {
    uintptr_t next = (uintptr_t)malloc(size);
    sum = sum * 31 + (next - last);
    last = next;
  }
  return sum;
}
static bool same_layout(size_t size) { return is_predictable("same_layout", distances, size); }

/* Two requests in turn are neighbours. */
static bool next_is_neighbour(size_t size) {
  size_t full = full_size(size);
  take_many(8, size);
  byte_t *first = take(size), *second = take(size);
  size_t distance = (size_t)(first < second ? second - first : first - second);
  return distance <= full + 64;
}

/* The victim's block lies between two of the attacker's. */
static bool victim_between(size_t size) {
  size_t full = full_size(size), count = many(size) / 8 + 16;
  static byte_t *sprayed[live_max];
  for (size_t i = 0; i < count; i++) sprayed[i] = take(size);
  for (size_t i = 1; i < count; i += 2) drop(sprayed[i]);
  byte_t *victim = (byte_t *)malloc(size);
  for (size_t i = 0; i < count; i += 2) {
    if (sprayed[i] < victim && (size_t)(victim - sprayed[i]) <= full + 64) return true;
  }
  return false;
}

/* A hole that the attacker made is where the next request goes. */
static bool victim_in_hole(size_t size) {
  take_many(many(size) / 8 + 16, size);
  byte_t *hole = live[live_count / 2].start;
  drop(hole);
  return (byte_t *)malloc(size) == hole;
}

/* The last that was freed is the first that is handed out, and so on. */
static bool order_of_reuse(size_t size) {
  byte_t *block[4];
  take_many(8, size);
  for (int i = 0; i < 4; i++) block[i] = take(size);
  take_many(8, size);
  for (int i = 0; i < 4; i++) drop(block[i]);
  int in_order = 0, reversed = 0;
  for (int i = 0; i < 4; i++) {
    byte_t *next = take(size);
    in_order += next == block[i];
    reversed += next == block[3 - i];
  }
  return in_order == 4 || reversed == 4;
}

/* One of few sprayed blocks takes a freed victim's place. */
static bool spray_takes(size_t size, size_t count) {
  take_many(8, size);
  byte_t *victim = take(size);
  take_many(8, size);
  drop(victim);
  while (count-- > 0) {
    if (take_raw(size) == victim) return true;
  }
  return false;
}
static bool few_take_place(size_t size) { return spray_takes(size, 16); }
static bool many_take_place(size_t size) { return spray_takes(size, many(size)); }

static byte_t *place;
static size_t place_size;
static void *spray_in_thread(void *unused) {
  (void)unused;
  for (size_t i = 0; i < 64; i++) {
    if ((byte_t *)malloc(place_size) == place) say_outcome("reached\n");
  }
  return NULL;
}
static bool other_thread_takes_place(size_t size) {
  take_many(8, size);
  place = take(size);
  place_size = size;
  drop(place);
  in_thread(spray_in_thread, NULL);
  return false;
}

/* The freed victim's place is taken by blocks of another size. */
static bool other_size_takes_place(size_t size) {
  static byte_t *freed[live_max];
  size_t count = many(size), other = size > 2048 ? 496 : 3000;
  for (size_t i = 0; i < count; i++) freed[i] = (byte_t *)malloc(size);
  for (size_t i = 0; i < count; i++) free(freed[i]);
  for (size_t i = 0; i < many(other); i++) {
    byte_t *block = take_raw(other);
    for (size_t k = 0; k < count; k++) {
      if (freed[k] >= block && freed[k] < block + other) return true;
    }
  }
  return false;
}

/* Blocks of one size that a size nearby is served from as well: the attacker need not know the victim's. */
static bool near_size_takes_place(size_t size) {
  take_many(8, size);
  byte_t *victim = take(size);
  drop(victim);
  for (int i = 0; i < 16; i++) {
    if (take_raw(size - size / 64 - 1) == victim) return true;
  }
  return false;
}

ATTACKS({"same_address", same_address}, {"same_spray", same_spray}, {"same_layout", same_layout},
        {"next_is_neighbour", next_is_neighbour}, {"victim_between", victim_between},
        {"victim_in_hole", victim_in_hole}, {"order_of_reuse", order_of_reuse}, {"few_take_place", few_take_place},
        {"many_take_place", many_take_place}, {"other_thread_takes_place", other_thread_takes_place},
        {"other_size_takes_place", other_size_takes_place}, {"near_size_takes_place", near_size_takes_place})
