/* Memory that malloc gives keeps what it held, also what the allocator wrote into free blocks. A program may copy that,
 * unset as it is, and free the copy: nothing of it is a mistake. */
#include "check.h"

enum { block_count = 60000, run_count = 60, table_rows = 10, rounds = 20 };

struct row {
  char name[48];
  int used;
  int unset[3];
};

static void *blocks[block_count];

static void fill_and_free(size_t size) {
  for (int i = 0; i < block_count; i++) {
    blocks[i] = malloc(size);
    memset(blocks[i], i, size);
  }
  for (int i = 0; i < block_count; i++) free(blocks[i]);
}

/* realloc itself copies bytes that were never set. */
static void shrink_unset_runs(void) {
  for (int i = 0; i < run_count; i++) blocks[i] = malloc(100000);
  for (int i = 0; i < run_count; i++) blocks[i] = realloc(blocks[i], 5000);
  for (int i = 0; i < run_count; i++) free(blocks[i]);
}

/* A row that was not set is copied out of a table. */
static void copy_unset_rows(void) {
  for (int i = 0; i < 2000; i++) {
    struct row *table = malloc(table_rows * sizeof *table);
    for (int k = 0; k < table_rows; k++) table[k].used = 0;
    struct row *copy = malloc(sizeof *copy);
    memcpy(copy, &table[i % (table_rows - 1) + 1], sizeof *copy);
    free(copy);
    blocks[i] = table;
  }
  for (int i = 0; i < 2000; i++) free(blocks[i]);
}

int main(void) {
  for (int i = 0; i < rounds; i++) {
    fill_and_free(64);
    shrink_unset_runs();
    copy_unset_rows();
  }
  puts("ok");
  return 0;
}
