/* Every block of the C library's functions is hakmem's. Prints the functions whose blocks are not. */
#define _GNU_SOURCE 1
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "owned.h"

static int failures;

static void check(const char *name, void *block) {
  if (block == NULL || !is_owned(block)) {
    printf("%s: not hakmem's\n", name);
    failures++;
  }
  free(block);
}

static void *from_posix_memalign(void) {
  void *block = NULL;
  return posix_memalign(&block, 256, 100) == 0 ? block : NULL;
}

static void *from_getline(void) {
  static const char text[] = "a line\n";
  FILE *file = fmemopen((void *)text, sizeof text - 1, "r");
  char *line = NULL;
  size_t bytes = 0;
  if (getline(&line, &bytes, file) < 0) return NULL;
  fclose(file);
  return line;
}

static void *from_memstream(void) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  fprintf(file, "%0500d", 7);
  fclose(file);
  return bytes == 500 ? text : NULL;
}

static void *from_asprintf(void) {
  char *text = NULL;
  return asprintf(&text, "%d", 7) == 1 ? text : NULL;
}

int main(void) {
  check("malloc", malloc(100));
  check("calloc", calloc(10, 10));
  check("realloc", realloc(malloc(10), 100000));
  check("reallocarray", reallocarray(NULL, 10, 10));
  check("aligned_alloc", aligned_alloc(64, 128));
  check("memalign", memalign(4096, 100));
  check("posix_memalign", from_posix_memalign());
  check("valloc", valloc(100));
  check("a large block", malloc(64 << 20));
  check("strdup", strdup("text"));
  check("getline", from_getline());
  check("open_memstream", from_memstream());
  check("asprintf", from_asprintf());
  check("realpath", realpath("/", NULL));
  /* musl's realloc to size 0 gives a block; glibc's would free and return NULL. */
  check("realloc to 0", realloc(malloc(10), 0));
  check("reallocarray to 0", reallocarray(malloc(10), 0, 8));
  void *block = malloc(1000);
  if (malloc_usable_size(block) < 1000) failures++;
  free(block);
  puts(failures == 0 ? "ok" : "failed");
  return failures != 0;
}
