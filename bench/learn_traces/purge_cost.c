/* bench/learn_traces/purge_cost.c - measures the cost of purging memory and faulting it in again, in CPU time a MiB:
 * the constants of src/policy/price.h. Prints a line for each size of the pieces that are purged at once. With an
 * argument, for memory that is purged lazily, and that the system has not taken.
 *
 *   cc -O2 -o purge_cost purge_cost.c && ./purge_cost && ./purge_cost lazily
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)
#define BYTES (64 * MIB)
#define ROUNDS 15

static int advice = MADV_DONTNEED;

/* The process's own time: another program on the same core does not lengthen it by more than cold caches do. */
static uint64_t cpu_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static uint64_t touch(char *memory, size_t page_bytes) {
  uint64_t start = cpu_ns();
  for (size_t at = 0; at < BYTES; at += page_bytes) *(volatile char *)(memory + at) = 1;
  return cpu_ns() - start;
}

static uint64_t give_back(char *memory, size_t piece_bytes) {
  uint64_t start = cpu_ns();
  for (size_t at = 0; at < BYTES; at += piece_bytes) {
    if (madvise(memory + at, piece_bytes, advice) != 0) exit(1);
  }
  return cpu_ns() - start;
}

static void measure(char *memory, size_t page_bytes, size_t piece_bytes) {
  uint64_t given[ROUNDS], wanted[ROUNDS], resident[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    given[i] = give_back(memory, piece_bytes);
    wanted[i] = touch(memory, page_bytes);
    resident[i] = touch(memory, page_bytes);
    wanted[i] -= resident[i] < wanted[i] ? resident[i] : wanted[i];
  }
  qsort(given, ROUNDS, sizeof *given, by_value);
  qsort(wanted, ROUNDS, sizeof *wanted, by_value);
  uint64_t mib_count = BYTES / MIB;
  printf("pieces of %5zu KiB: given back %6.1f us a MiB, wanted again %6.1f us a MiB, together %6.1f\n",
         piece_bytes / 1024, (double)given[ROUNDS / 2] / mib_count / 1e3, (double)wanted[ROUNDS / 2] / mib_count / 1e3,
         (double)(given[ROUNDS / 2] + wanted[ROUNDS / 2]) / mib_count / 1e3);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) advice = MADV_FREE;
  size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  /* As hakmem's superslabs are: no huge pages. */
  (void)madvise(memory, BYTES, MADV_NOHUGEPAGE);
  touch(memory, page_bytes);
  for (size_t piece_bytes = 64 * 1024; piece_bytes <= 16 * MIB; piece_bytes *= 4)
    measure(memory, page_bytes, piece_bytes);
  return 0;
}
