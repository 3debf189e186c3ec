/* Threads that are cancelled while they allocate: cancel_storm THREADS. Prints `ok`.
 *
 * A thread that is cancelled ends at one of its cancellation points, or anywhere at all while it calls nothing and has
 * said so. Had malloc a cancellation point inside, a lock or a block could be lost with the thread. Each frees in its
 * cleanup handlers what it has, so resident memory must not grow with the number of threads.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* Between two looks, the memory that may stay dirty and the untouched parts of huge pages differ by up to 9 MiB. A heap
 * that stays with a cancelled thread keeps 256 KiB of spare slabs, so those of 375 threads add 90 MiB. */
enum { growth_limit_kib = 16384, patience_seconds = 60 };

typedef struct {
  unsigned random;
  atomic_int is_at_work;
  unsigned char *block;
  size_t size;
  FILE *stream;
  char *line;
  size_t room;
} life_t;

static int silent_pipe[2];

static void free_block(life_t *life) {
  CHECK(is_painted(life->block, life->size, 1));
  free(life->block);
  life->block = NULL;
  life->size = 0;
}

static void change_block(life_t *life) {
  free_block(life);
  const unsigned random = next_random(&life->random);
  const size_t size = 1 + random % (random % 32 == 0 ? 300000 : random % 4 == 0 ? 20000 : 1000);
  life->block = malloc(size);
  CHECK(life->block != NULL);
  life->size = size;
  paint(life->block, size, 1);
  life->is_at_work = 1;
}

static void clean_up(void *argument) {
  life_t *life = argument;
  free_block(life);
  free(life->line);
  if (life->stream != NULL) CHECK(fclose(life->stream) == 0);
  free(malloc(100));
}

static void end_where_asked(life_t *life) {
  for (;;) {
    change_block(life);
    pthread_testcancel();
  }
}

/* Between two changes it may end at any instruction. */
static void end_anywhere(life_t *life) {
  for (;;) {
    change_block(life);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    for (size_t i = 0; i < life->size; ++i) ((volatile unsigned char *)life->block)[i] = life->block[i];
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL) == 0);
  }
}

/* Inside the C library, which has allocated the stream's buffer and the line, and holds the stream's lock. */
static void end_in_read(life_t *life) {
  const int copy = dup(silent_pipe[0]);
  CHECK(copy >= 0);
  life->stream = fdopen(copy, "r");
  CHECK(life->stream != NULL);
  change_block(life);
  getline(&life->line, &life->room, life->stream);
  CHECK(!"nobody writes to the pipe");
}

static void (*const ways[])(life_t *) = {end_where_asked, end_anywhere, end_in_read};
enum { way_count = sizeof ways / sizeof *ways };

static void *live(void *argument) {
  life_t *life = argument;
  pthread_cleanup_push(clean_up, life);
  ways[next_random(&life->random) % way_count](life);
  pthread_cleanup_pop(0);
  return NULL;
}

static void cancel_some(unsigned first, int count) {
  for (int i = 0; i < count; i += way_count) {
    alarm(patience_seconds);
    life_t lives[way_count] = {0};
    pthread_t threads[way_count];
    for (int k = 0; k < way_count; ++k) {
      lives[k].random = first + (unsigned)(i + k) * 7919;
      CHECK(pthread_create(&threads[k], NULL, live, &lives[k]) == 0);
    }
    for (int k = 0; k < way_count; ++k) {
      while (!lives[k].is_at_work) nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
      void *result;
      CHECK(pthread_cancel(threads[k]) == 0 && pthread_join(threads[k], &result) == 0 && result == PTHREAD_CANCELED);
      CHECK(lives[k].block == NULL);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 2 || pipe(silent_pipe) != 0) return exit_usage;
  const int count = atoi(argv[1]);
  cancel_some(1, count / 4);
  const long quarter = status_kib("VmRSS");
  cancel_some(2, count - count / 4);
  CHECK(status_kib("VmRSS") - quarter <= growth_limit_kib);
  puts("ok");
  return 0;
}
