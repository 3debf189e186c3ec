/* tests/misuse/attack_double_free.c - The second free of one block. The goal is two owners of the same memory. */
#include <stdatomic.h>
#include <sys/wait.h>

#include "attack.h"

static byte_t *block_among_live(size_t size) {
  take_many(3, size);
  byte_t *block = take(size);
  take_many(3, size);
  return block;
}

static void free_again(void *block) { free(forget(block)); }

static bool requests_after(size_t size) { return requests_give_target(4 * some(size), size); }

static bool at_once(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  free_again(block);
  return requests_after(size);
}

static bool interleaved(size_t size) {
  byte_t *block = block_among_live(size), *other = take(size);
  drop(block);
  drop(other);
  free_again(block);
  return requests_after(size);
}

static bool delayed(size_t size) {
  byte_t *block = block_among_live(size);
  size_t first = live_count;
  take_many(many(size), size);
  drop(block);
  for (size_t i = live_count - first; i > 0; i--) drop(live[live_count - 1].start);
  free_again(block);
  return requests_after(size);
}

/* Other requests in between, none of the block's size. */
static bool after_other_sizes(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  for (size_t other = 32; other < 8192; other += other / 2) drop(take(other == size ? other + 512 : other));
  free_again(block);
  return requests_after(size);
}

static bool in_another_thread(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  in_thread(free_once, block);
  return requests_after(size);
}

static bool after_another_thread(size_t size) {
  byte_t *block = block_among_live(size);
  leave(block);
  in_thread(free_once, block);
  free_again(block);
  return requests_after(size);
}

static bool by_two_threads(size_t size) {
  byte_t *block = block_among_live(size);
  leave(block);
  in_thread(free_once, block);
  in_thread(free_once, block);
  return requests_after(size);
}

/* Both threads free the block at the same moment: a check that reads first and writes then lets both through. */
static void *raced;
static atomic_int racers;
static void *free_in_race(void *unused) {
  atomic_fetch_add(&racers, 1);
  while (atomic_load(&racers) % 2 != 0) continue;
  free(forget(raced));
  return unused;
}
static bool at_the_same_moment(size_t size) {
  pthread_t thread;
  raced = block_among_live(size);
  leave(raced);
  if (pthread_create(&thread, NULL, free_in_race, NULL) != 0) _exit(94);
  while (atomic_load(&racers) == 0) continue;
  (void)free_in_race(NULL);
  if (pthread_join(thread, NULL) != 0) _exit(95);
  return requests_after(size);
}

static void *allocate_and_free(void *argument) {
  byte_t *block = (byte_t *)malloc(*(size_t *)argument);
  memset(block, mine, *(size_t *)argument);
  free(block);
  return forget(block);
}

/* The thread whose block it was has ended. */
static bool after_thread_end(size_t size) {
  pthread_t thread;
  void *block = NULL;
  if (pthread_create(&thread, NULL, allocate_and_free, &size) != 0) _exit(94);
  if (pthread_join(thread, &block) != 0) _exit(95);
  free_again(block);
  return requests_after(size);
}

/* The child frees what its parent freed. It ends as the attack does. */
static bool in_a_child(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  pid_t child = fork();
  if (child < 0) _exit(96);
  if (child == 0) {
    free_again(block);
    return requests_after(size);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) _exit(97);
  if (WIFSIGNALED(status)) {
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)raise(WTERMSIG(status));
  }
  _exit(WEXITSTATUS(status));
}

/* The block has a new owner by then: the second free takes it from the owner. */
static bool after_reuse(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  (void)take(size);
  free_again(block);
  return requests_after(size);
}

/* As many requests in between as a slab has blocks. */
static bool after_much_reuse(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  take_many(many(size), size);
  free_again(block);
  return requests_after(size);
}

/* The slab of the block is free as a whole, and serves another size. */
static bool after_reuse_of_slab(size_t size) {
  static byte_t *blocks[live_max];
  size_t count = many(size), other = size > 2048 ? 512 : 4096;
  for (size_t i = 0; i < count; i++) blocks[i] = (byte_t *)malloc(size);
  for (size_t i = 0; i < count; i++) free(blocks[i]);
  take_many(many(other), other);
  for (size_t i = 0; i < count; i += count / 8) free_again(blocks[i]);
  return requests_give_target(many(other), other);
}

static bool after_realloc_moved(size_t size) {
  byte_t *block = block_among_live(size);
  leave(block);
  byte_t *moved = (byte_t *)realloc(block, 8 * size);
  if (moved == forget(block)) return false;
  free_again(block);
  return requests_after(size);
}

static bool after_realloc_to_nothing(size_t size) {
  byte_t *block = block_among_live(size);
  leave(block);
  void *nothing = realloc(forget(block), 0);
  if (nothing == block) return false;
  free_again(block);
  return requests_after(size);
}

static bool by_realloc(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  byte_t *moved = (byte_t *)realloc(forget(block), 4 * size);
  if (moved != NULL) live[live_count++] = (struct live){moved, 4 * size};
  return requests_after(size);
}

static bool of_aligned(size_t size) {
  take_many(3, size);
  void *block = NULL;
  if (posix_memalign(&block, 256, size) != 0) _exit(91);
  free(block);
  free_again(block);
  return requests_after(size);
}

/* The program overwrites what marks the block as free, by a stale pointer, and frees it again. */
static bool after_stale_write(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  memset(forget(block), 0, 16);
  free_again(block);
  return requests_after(size);
}

static bool after_stale_write_of_second_word(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  memset((byte_t *)forget(block) + 8, 0, 8);
  free_again(block);
  return requests_after(size);
}

/* The goal is the first owner's data. */
static bool used_by_both(size_t size) {
  byte_t *block = block_among_live(size);
  drop(block);
  free_again(block);
  byte_t *first = take(size), *second = (byte_t *)malloc(size);
  memset(second, forged, size);
  return !is_all(first, size, mine);
}

ATTACKS({"at_once", at_once}, {"interleaved", interleaved}, {"delayed", delayed},
        {"after_other_sizes", after_other_sizes}, {"in_another_thread", in_another_thread},
        {"after_another_thread", after_another_thread}, {"by_two_threads", by_two_threads},
        {"at_the_same_moment", at_the_same_moment}, {"after_thread_end", after_thread_end}, {"in_a_child", in_a_child},
        {"after_reuse", after_reuse}, {"after_much_reuse", after_much_reuse},
        {"after_reuse_of_slab", after_reuse_of_slab}, {"after_realloc_moved", after_realloc_moved},
        {"after_realloc_to_nothing", after_realloc_to_nothing}, {"by_realloc", by_realloc}, {"of_aligned", of_aligned},
        {"after_stale_write", after_stale_write},
        {"after_stale_write_of_second_word", after_stale_write_of_second_word}, {"used_by_both", used_by_both})
