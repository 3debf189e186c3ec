/* bench/heaps.c - named heaps beside mimalloc's heaps and jemalloc's arenas: bench/heaps.py runs it.
 *
 *     LD_PRELOAD=LIBRARY heaps (hakmem|mimalloc|jemalloc) (blocks|many|plain|shared|apart) [THREADS]
 *
 * blocks: creates a heap, allocates a million blocks of 16 to 128 bytes in it and writes to each, destroys it.
 * plain:  the same by malloc and free.
 * many:   creates 10,000 heaps, then allocates one block in each, then destroys them.
 * shared: THREADS threads allocate in one heap, and free their own blocks.
 * apart:  the same with a heap for each thread.
 *
 * Prints the times in ns, the growth of resident memory in bytes, and voluntary context switches, by name. The library
 * is preloaded, because jemalloc cannot be opened late.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 1000000
#define HEAPS 10000
#define PAIRS 1000000
#define LIVE 1000
#define THREADS_MAX 64

typedef struct {
  void *(*create)(void);
  void *(*allocate)(void *heap, size_t size);
  void (*destroy)(void *heap);
} api_t;

static void *symbol(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (found != NULL) return found;
  fprintf(stderr, "heaps: the library has no %s\n", name);
  exit(1);
}

/* ---- hakmem. */

static void *(*hakmem_create)(const char *name, const void *options);
static void *create_named(void) { return hakmem_create("bench", NULL); }

/* ---- jemalloc: an arena, with a thread cache of its own for it, as its manual advises. */

static int (*jemalloc_control)(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
static void *(*jemalloc_allocate)(size_t size, int flags);
typedef struct {
  unsigned arena, cache;
} arena_t;

static void *create_arena(void) {
  static arena_t arenas[HEAPS];
  static unsigned count;
  arena_t *arena = &arenas[count++ % HEAPS];
  size_t bytes = sizeof arena->arena;
  if (jemalloc_control("arenas.create", &arena->arena, &bytes, NULL, 0) != 0) return NULL;
  return jemalloc_control("tcache.create", &arena->cache, &bytes, NULL, 0) == 0 ? arena : NULL;
}

static bool has_cache = true;

/* One thread at a time may use a cache. Flag 0x100 is MALLOCX_TCACHE_NONE. */
static void *allocate_in_arena(void *heap, size_t size) {
  const arena_t *arena = heap;
  unsigned cache = has_cache ? (arena->cache + 2) << 8 : 0x100;
  return jemalloc_allocate(size, (int)((arena->arena + 1) << 20 | cache));
}

static void destroy_arena(void *heap) {
  const arena_t *arena = heap;
  unsigned cache = arena->cache;
  char name[64];
  if (jemalloc_control("tcache.destroy", NULL, NULL, &cache, sizeof cache) != 0) exit(1);
  snprintf(name, sizeof name, "arena.%u.destroy", arena->arena);
  if (jemalloc_control(name, NULL, NULL, NULL, 0) != 0) exit(1);
}

/* ---- The library. */

#define LOAD(target, name) *(void **)(&(target)) = symbol(name)

static api_t load(const char *kind) {
  api_t api = {0};
  if (strcmp(kind, "hakmem") == 0) {
    LOAD(hakmem_create, "hakmem_heap_create");
    api.create = create_named;
    LOAD(api.allocate, "hakmem_heap_malloc");
    LOAD(api.destroy, "hakmem_heap_destroy");
  } else if (strcmp(kind, "mimalloc") == 0) {
    LOAD(api.create, "mi_heap_new");
    LOAD(api.allocate, "mi_heap_malloc");
    LOAD(api.destroy, "mi_heap_destroy");
  } else {
    LOAD(jemalloc_control, "mallctl");
    LOAD(jemalloc_allocate, "mallocx");
    api = (api_t){create_arena, allocate_in_arena, destroy_arena};
  }
  return api;
}

/* ---- Figures. */

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t resident_bytes(void) {
  unsigned long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%lu %lu", &pages, &resident) != 2) exit(1);
  fclose(file);
  return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static size_t size_of(size_t i) { return 16 + i * 16 % 128; }

static void check(const void *block) {
  if (block != NULL) return;
  fprintf(stderr, "heaps: no memory\n");
  exit(1);
}

static void run_blocks(const api_t *api) {
  uint64_t before = resident_bytes(), start = now_ns();
  void *heap = api->create();
  check(heap);
  uint64_t created = now_ns();
  for (size_t i = 0; i < BLOCKS; i++) {
    char *block = api->allocate(heap, size_of(i));
    check(block);
    *block = 1;
  }
  uint64_t allocated = now_ns(), resident = resident_bytes() - before, begin = now_ns();
  api->destroy(heap);
  uint64_t end = now_ns();
  printf("create %lu allocate %lu destroy %lu resident %lu\n", created - start, allocated - created, end - begin,
         resident);
}

static void run_plain(void) {
  void *(*allocate)(size_t size);
  void (*give_back)(void *block);
  LOAD(allocate, "malloc");
  LOAD(give_back, "free");
  char **blocks = calloc(BLOCKS, sizeof *blocks);
  check(blocks);
  memset(blocks, 1, BLOCKS * sizeof *blocks);
  uint64_t before = resident_bytes(), start = now_ns();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = allocate(size_of(i));
    check(blocks[i]);
    *blocks[i] = 1;
  }
  uint64_t allocated = now_ns(), resident = resident_bytes() - before, begin = now_ns();
  for (size_t i = 0; i < BLOCKS; i++) give_back(blocks[i]);
  printf("create 0 allocate %lu destroy %lu resident %lu\n", allocated - start, now_ns() - begin, resident);
}

static void run_many(const api_t *api) {
  static void *heaps[HEAPS];
  memset(heaps, 1, sizeof heaps);
  uint64_t before = resident_bytes(), start = now_ns();
  for (size_t i = 0; i < HEAPS; i++) check(heaps[i] = api->create());
  uint64_t created = now_ns(), unused = resident_bytes() - before, begin = now_ns();
  for (size_t i = 0; i < HEAPS; i++) {
    char *block = api->allocate(heaps[i], 48);
    check(block);
    *block = 1;
  }
  uint64_t allocated = now_ns(), used = resident_bytes() - before, ending = now_ns();
  for (size_t i = 0; i < HEAPS; i++) api->destroy(heaps[i]);
  printf("create %lu allocate %lu destroy %lu unused %lu resident %lu\n", created - start, allocated - begin,
         now_ns() - ending, unused, used);
}

/* ---- Threads. */

typedef struct {
  const api_t *api;
  void *heap;
  void (*give_back)(void *block);
  pthread_barrier_t *start;
} work_t;

static void *work(void *argument) {
  const work_t *own = argument;
  void *blocks[LIVE] = {0};
  uint64_t random = 88172645463325252;
  pthread_barrier_wait(own->start);
  for (size_t i = 0; i < PAIRS; i++) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    void **block = &blocks[random % LIVE];
    if (*block != NULL) own->give_back(*block);
    check(*block = own->api->allocate(own->heap, size_of(random >> 32)));
  }
  for (size_t i = 0; i < LIVE; i++) {
    if (blocks[i] != NULL) own->give_back(blocks[i]);
  }
  return NULL;
}

static uint64_t cpu_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void run_threads(const api_t *api, size_t count, bool is_shared) {
  pthread_t threads[THREADS_MAX];
  work_t works[THREADS_MAX];
  pthread_barrier_t start;
  void *heap = api->create();
  struct rusage usage;
  has_cache = !is_shared;
  pthread_barrier_init(&start, NULL, (unsigned)count);
  uint64_t begin = cpu_ns();
  for (size_t i = 0; i < count; i++) {
    works[i] = (work_t){.api = api, .heap = i == 0 || is_shared ? heap : api->create(), .start = &start};
    LOAD(works[i].give_back, "free");
    if (pthread_create(&threads[i], NULL, work, &works[i]) != 0) exit(1);
  }
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  uint64_t spent = cpu_ns() - begin;
  getrusage(RUSAGE_SELF, &usage);
  printf("pair %lu switches %ld\n", spent / (count * PAIRS), usage.ru_nvcsw);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const char *mode = argv[2];
  if (strcmp(mode, "plain") == 0) {
    run_plain();
    return 0;
  }
  api_t api = load(argv[1]);
  if (strcmp(mode, "many") == 0) {
    run_many(&api);
  } else if (strcmp(mode, "shared") == 0 || strcmp(mode, "apart") == 0) {
    size_t count = argc > 3 ? strtoul(argv[3], NULL, 10) : 2;
    if (count == 0 || count > THREADS_MAX) return 2;
    run_threads(&api, count, *mode == 's');
  } else {
    run_blocks(&api);
  }
  return 0;
}
