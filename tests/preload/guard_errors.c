/* Makes one memory error with each of several blocks: guard_errors KIND SIZE TIMES [WHERE]. Ends with "went on" and the
 * value that it has read last. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned char sink;

/* Each time another function of the program calls memcpy. */
static void *copied;
static __attribute__((noinline)) void copy_here(const void *from, size_t size) {
  memcpy(copied, from, size);
  sink++;
}
static __attribute__((noinline)) void copy_there(const void *from, size_t size) {
  memcpy(copied, from, size);
  sink--;
}
static void copy_from(const void *from, size_t size) {
  static int turn;
  if (copied == NULL) copied = calloc(1, size);
  if (turn++ % 2 == 0) {
    copy_here(from, size);
  } else {
    copy_there(from, size);
  }
}

/* A write behind a block of a heap, which is then destroyed with it. */
static void destroy_damaged(size_t size) {
  void *(*create)(const char *, const void *) =
      (void *(*)(const char *, const void *))dlsym(RTLD_DEFAULT, "hakmem_heap_create");
  void *(*heap_malloc)(void *, size_t) = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "hakmem_heap_malloc");
  void (*destroy)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "hakmem_heap_destroy");
  void *heap = create("damaged", NULL);
  volatile unsigned char *block = heap_malloc(heap, size);
  block[size] = 7;
  destroy(heap);
}

/* A write behind a block that was not guarded and has grown. An ordinary block has room there. */
static void grow(void *block, size_t size) {
  size_t more = size + size / 8;
  bool was_guarded = malloc_usable_size(block) == size;
  volatile unsigned char *grown = realloc(block, more);
  if (!was_guarded) grown[more] = 7;
  free((void *)grown);
}

/* An alignment that one page cannot give: such a block has a mapping of its own. */
static void free_nothing_twice(void) {
  void *volatile nothing = memalign(4 * (size_t)sysconf(_SC_PAGESIZE), 0);
  free(nothing);
  free(nothing);
}

static void err(const char *kind, volatile unsigned char *block, size_t size) {
  void *plain = (void *)block;
  if (strcmp(kind, "read_after") == 0) {
    free(plain);
    sink = block[size / 2];
  } else if (strcmp(kind, "write_after") == 0) {
    free(plain);
    block[size - 1] = 7;
  } else if (strcmp(kind, "write_behind") == 0) {
    block[size] = 7;
    free(plain);
  } else if (strcmp(kind, "write_before") == 0) {
    block[-1] = 7;
    free(plain);
  } else if (strcmp(kind, "read_behind") == 0) {
    sink = block[(size + 15) / 16 * 16];
    free(plain);
  } else if (strcmp(kind, "read_padding") == 0) {
    sink = block[size]; /* up to the alignment's end */
    free(plain);
  } else if (strcmp(kind, "destroy") == 0) {
    destroy_damaged(size);
    free(plain);
  } else if (strcmp(kind, "far_behind") == 0) {
    block[size + 5000] = 7; /* behind the guard page lies the next slot */
  } else if (strcmp(kind, "copy_after") == 0) {
    free(plain);
    copy_from(plain, size);
  } else if (strcmp(kind, "grow_behind") == 0) {
    grow(plain, size);
  } else if (strcmp(kind, "read_before") == 0) {
    sink = block[-1];
    free(plain);
  } else if (strcmp(kind, "double_free") == 0) {
    free(plain);
    free((void *)block);
  } else if (strcmp(kind, "free_nothing_twice") == 0) {
    free_nothing_twice();
    free(plain);
  } else if (strcmp(kind, "interior_free") == 0) {
    free((void *)(block + 1));
  } else if (strcmp(kind, "realloc_after") == 0) {
    free(plain);
    sink = realloc((void *)block, size + 1) != NULL;
  } else {
    free(plain);
  }
}

typedef struct {
  const char *kind;
  size_t size;
} work_t;

static void *in_thread(void *argument) {
  const work_t *work = argument;
  err(work->kind, malloc(work->size), work->size);
  return NULL;
}

static int in_child(const work_t *work) {
  volatile unsigned char *mine = malloc(work->size);
  pid_t child = fork();
  if (child == 0) {
    err(work->kind, mine, work->size); /* the parent's block */
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  free((void *)mine); /* in the parent it is as before */
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  work_t work = {argv[1], strtoul(argv[2], NULL, 10)};
  int times = atoi(argv[3]);
  const char *where = argc > 4 ? argv[4] : "";
  if (strcmp(where, "child") == 0) {
    printf("child ended by %d\n", in_child(&work));
  } else if (strcmp(where, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &work);
    pthread_join(thread, NULL);
  } else {
    for (int i = 0; i < times; i++) {
      if (strcmp(where, "beside") == 0) free(malloc(24)); /* of another call stack */
      unsigned char *block = malloc(work.size);
      if (block == NULL) return 3;
      memset(block, 1, work.size);
      err(work.kind, block, work.size);
    }
  }
  printf("went on\n");
  return 0;
}
