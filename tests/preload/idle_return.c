/* Takes memory, frees all but a part, and does nothing any more: idle_return HOW SIZE TAKEN LIVE BOUND BURSTS PAUSE
 *
 * TAKEN bytes in blocks of SIZE, written to; the first LIVE bytes of them stay. HOW: `alone` is one thread. `falls` is
 * one thread that frees in the end what had stayed, too. `each` are four that take and free a quarter each, and then
 * sleep without ending. `handed` are two, one that takes and one that frees. `joined` are four that end. These blocks
 * are taken and freed BURSTS times in all, with a pause of PAUSE ms. Prints `peak BYTES beats N resident BYTES`: what
 * was resident at the most; how many fiftieths of a second it took until no more than BOUND was (patience ends after
 * 200); and the resident bytes then. The bytes that the program had before are taken off.
 */
#include "idle_memory.h"

#include <pthread.h>
#include <stdatomic.h>

enum { thread_count = 4, most_beats = 4 * beats_a_second };

static size_t block_size, part_taken, part_live; /* of one thread */
static int burst_count, beats_between_bursts;
static block_t *kept[thread_count];
static _Atomic(block_t *) handed_over;
static atomic_int done_count;
static pthread_barrier_t all_have_it; /* of those that do the same */

static void *live_on(void) {
  ++done_count;
  for (;;) pause();
  return NULL;
}

static void take_and_free(uintptr_t part) {
  kept[part] = take_chain(block_size, part_live);
  for (int i = 0; i < burst_count; ++i) {
    if (i > 0) wait_beats(beats_between_bursts);
    block_t *chain = take_chain(block_size, part_taken - part_live);
    pthread_barrier_wait(&all_have_it);
    free_chain(chain);
  }
}

static void *be_one_of_each(void *part) {
  take_and_free((uintptr_t)part);
  return live_on();
}

static void *come_and_go(void *part) {
  take_and_free((uintptr_t)part);
  return NULL;
}

static void *produce(void *unused) {
  (void)unused;
  kept[0] = take_chain(block_size, part_live);
  handed_over = take_chain(block_size, part_taken - part_live);
  return live_on();
}

static void *consume(void *unused) {
  (void)unused;
  block_t *chain;
  while ((chain = atomic_exchange(&handed_over, NULL)) == NULL) wait_beats(1);
  free_chain(chain);
  return live_on();
}

static void divide_by(unsigned parts) {
  CHECK(pthread_barrier_init(&all_have_it, NULL, parts) == 0);
  part_taken /= parts;
  part_live /= parts;
}

static pthread_t start(void *(*body)(void *), uintptr_t part) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, (void *)part) == 0);
  return thread;
}

static void do_alone(void) {
  divide_by(1);
  take_and_free(0);
}

static void do_falls(void) {
  do_alone();
  free_chain(kept[0]);
  kept[0] = NULL;
}

static void do_each(void) {
  divide_by(thread_count);
  for (uintptr_t i = 0; i < thread_count; ++i) start(be_one_of_each, i);
  while (done_count < thread_count) wait_beats(1);
}

static void do_joined(void) {
  divide_by(thread_count);
  pthread_t threads[thread_count];
  for (uintptr_t i = 0; i < thread_count; ++i) threads[i] = start(come_and_go, i);
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void do_handed(void) {
  start(produce, 0);
  start(consume, 0);
  while (done_count < 2) wait_beats(1);
}

int main(int argc, char **argv) {
  if (argc != 8) return exit_usage;
  alarm(60);
  const char *how = argv[1];
  block_size = strtoul(argv[2], NULL, 10);
  part_taken = strtoul(argv[3], NULL, 10);
  part_live = strtoul(argv[4], NULL, 10);
  const size_t bound = strtoul(argv[5], NULL, 10), before = resident_bytes();
  burst_count = atoi(argv[6]);
  beats_between_bursts = atoi(argv[7]) / beat_ms;
  static const struct {
    const char *how;
    void (*run)(void);
  } ways[] = {
      {"alone", do_alone}, {"falls", do_falls}, {"each", do_each}, {"handed", do_handed}, {"joined", do_joined}};
  size_t way = 0;
  while (way < sizeof ways / sizeof *ways && strcmp(ways[way].how, how) != 0) ++way;
  if (way == sizeof ways / sizeof *ways) return exit_usage;
  const size_t live = ways[way].run == do_falls ? 0 : part_live;
  ways[way].run();
  const int beats = beats_until_resident(before + bound, most_beats);
  const size_t after = resident_bytes(), peak = (size_t)status_kib("VmHWM") * KIB;
  size_t live_count = 0;
  for (int i = 0; i < thread_count; ++i) live_count += length_of(kept[i]);
  CHECK(live_count == live / block_size);
  printf("peak %zu beats %d resident %zu\n", peak - before, beats, after > before ? after - before : 0);
  return 0;
}
