/* The system takes no memory back: return_refused none|munmap|madvise
 *
 * The call is refused to all threads, from their start. Two of them take 32 MiB each in small blocks and free nearly
 * all of it, so that a little of every MiB stays in use, again and again: no block may change, calloc must clear, errno
 * must stay, and memory that could not be given back must serve the next round. Then they are idle, and the process
 * must be too, for the system keeps refusing. Prints `resident BYTES`: what the idle program has, less what it began
 * with.
 */
#include "idle_memory.h"
#include "refused_for_good.h"

#include <pthread.h>
#include <sys/mman.h>

enum { thread_count = 2, round_count = 20, block_bytes = 4096, blocks_a_round = 8192, one_stays_of = 256 };
enum { idle_beats = 3 * beats_a_second / 2, least_idle_percent = 50 };

/* The live bytes of a round, and more than a correct allocator needs for them. */
#define ROUND_BYTES ((size_t)thread_count * blocks_a_round * block_bytes)
#define MOST_BYTES (5 * ROUND_BYTES / 2)

static pthread_barrier_t barrier;
static unsigned char *blocks[thread_count][blocks_a_round];

static void drop(unsigned char **block, unsigned seed) {
  CHECK(is_painted(*block, block_bytes, seed));
  errno = 12345;
  free(*block);
  CHECK(errno == 12345);
  *block = NULL;
}

/* Memory that was not given back is not zero. */
static unsigned char *take_zero(void) {
  unsigned char *block = calloc(1, block_bytes);
  CHECK(block != NULL && block[0] == 0 && memcmp(block, block + 1, block_bytes - 1) == 0);
  return block;
}

static void run_round(unsigned char **mine) {
  for (unsigned i = 0; i < blocks_a_round; ++i) {
    if (mine[i] != NULL) drop(&mine[i], i);
    mine[i] = take_zero();
    paint(mine[i], block_bytes, i);
  }
  for (unsigned i = 0; i < blocks_a_round; ++i) {
    if (i % one_stays_of != 0) drop(&mine[i], i);
  }
}

static void *work(void *argument) {
  unsigned char **mine = blocks[(uintptr_t)argument];
  for (int i = 0; i < round_count; ++i) run_round(mine);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  run_round(mine); /* memory that could not be given back is there, and no other thread has it */
  pthread_barrier_wait(&barrier);
  for (;;) pause(); /* the C library gives up where it cannot unmap a stack */
  return NULL;
}

static void refuse(const char *name) {
  if (strcmp(name, "none") == 0) return;
  const int is_munmap = strcmp(name, "munmap") == 0;
  void *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  refuse_for_good(is_munmap ? SYS_munmap : SYS_madvise, is_munmap ? ENOMEM : EAGAIN);
  CHECK((is_munmap ? munmap(page, 65536) : madvise(page, 65536, MADV_DONTNEED)) == -1);
}

static long cpu_ms(void) {
  struct timespec used;
  CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
  return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  alarm(60);
  const size_t before = resident_bytes();
  refuse(argv[1]);
  CHECK(pthread_barrier_init(&barrier, NULL, thread_count + 1) == 0);
  for (uintptr_t i = 0; i < thread_count; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0);
  }
  pthread_barrier_wait(&barrier);
  const long worked_ms = cpu_ms();
  wait_beats(idle_beats);
  CHECK(cpu_ms() - worked_ms < (100 - least_idle_percent) * idle_beats * beat_ms / 100);
  const size_t idle = resident_bytes();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  CHECK((size_t)status_kib("VmHWM") * KIB < before + MOST_BYTES);
  printf("resident %zu\n", idle > before ? idle - before : 0);
  return 0;
}
