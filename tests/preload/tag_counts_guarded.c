/* A tag counts each block once, in a guard slot or not, when the program has more blocks than there are slots. */
#include "check.h"

#include "tag_functions.h"

enum { blocks_count = 3000 };

static void expect(const hakmem_tag_t *tag, uint64_t allocated, uint64_t live) {
  hakmem_tag_counts_t counts;
  tag_counts(tag, &counts, sizeof counts);
  CHECK(counts.allocated_blocks == allocated);
  CHECK(counts.live_blocks == live);
  CHECK(counts.freed_blocks == allocated - live);
}

int main(void) {
  static void *blocks[blocks_count];
  find_tag_functions();
  hakmem_tag_t *tag = tag_create("guarded");
  tag_push(tag);
  for (size_t i = 0; i < blocks_count; i++) CHECK((blocks[i] = malloc(1 + i * 20)) != NULL);
  expect(tag, blocks_count, blocks_count);
  for (size_t i = 0; i < blocks_count; i++) free(blocks[i]);
  expect(tag, blocks_count, 0);
  for (size_t i = 0; i < blocks_count; i++) free(malloc(i));
  tag_pop();
  expect(tag, (uint64_t)2 * blocks_count, 0);
  return 0;
}
