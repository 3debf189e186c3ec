/* The purge thread starts while a tag is pushed, which counts the blocks of the program alone. Two threads have enough
 * memory in use for a purge thread. */
#include "with_purge_thread.h"

#include <dlfcn.h>

#include "hakmem/hakmem.h"

enum { blocks_count = 1000 };

static hakmem_tag_t *(*tag_create)(const char *name);
static void (*tag_push)(hakmem_tag_t *tag);
static void (*tag_pop)(void);
static void (*tag_counts)(const hakmem_tag_t *tag, hakmem_tag_counts_t *out, size_t size);

static void *function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  CHECK(found != NULL);
  return found;
}

static void *allocate_and_free(void *tag) {
  void *blocks[blocks_count];
  tag_push(tag);
  for (size_t i = 0; i < blocks_count; i++) blocks[i] = malloc(1 + i * 100);
  for (size_t i = 0; i < blocks_count; i++) free(blocks[i]);
  tag_pop();
  return NULL;
}

int main(void) {
  alarm(30);
  tag_create = (hakmem_tag_t * (*)(const char *)) function("hakmem_tag_create");
  tag_push = (void (*)(hakmem_tag_t *))function("hakmem_tag_push");
  tag_pop = (void (*)(void))function("hakmem_tag_pop");
  tag_counts = (void (*)(const hakmem_tag_t *, hakmem_tag_counts_t *, size_t))function("hakmem_tag_counts");
  hakmem_tag_t *tag = tag_create("the program's");
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, allocate_and_free, tag) == 0);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  hakmem_tag_counts_t counts;
  tag_counts(tag, &counts, sizeof counts);
  CHECK(counts.allocated_blocks == 2 * (uint64_t)blocks_count);
  CHECK(counts.live_blocks == 0);
  return 0;
}
