/* The purge thread starts while a tag is pushed, which counts the blocks of the program alone. Two threads have enough
 * memory in use for a purge thread. */
#include "with_purge_thread.h"

#include "tag_functions.h"

enum { blocks_count = 1000 };

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
  find_tag_functions();
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
