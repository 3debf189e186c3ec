/* realloc to a smaller size where the system refuses every block: told_after_refusal
 *
 * The old block stays, and free_sized may be told the new size. So may it be after a realloc that finds a block again.
 * Where there is no free_sized, free ends the blocks. */
#include <dlfcn.h>
#include <sys/resource.h>

#include "check.h"

static void (*told_free)(void *block, size_t size);

static void end(void *block, size_t size) {
  if (told_free != NULL) {
    told_free(block, size);
  } else {
    free(block);
  }
}

typedef struct link {
  struct link *next;
} link_t;

/* Returns all blocks of the size that there are, in a list. */
static link_t *take_all(size_t size, link_t *others) {
  for (link_t *block; (block = malloc(size)) != NULL; others = block) block->next = others;
  return others;
}

static const size_t sizes[][2] = {{1000, 400}, {1000, 1},        {30000, 100},      {300000, 40000},
                                  {300000, 9}, {3 << 20, 70000}, {3 << 20, 2 << 20}};
enum { count = sizeof sizes / sizeof *sizes };

int main(void) {
  told_free = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
  void *blocks[count][3];
  for (unsigned i = 0; i < count; i++) {
    for (unsigned k = 0; k < 3; k++) {
      CHECK((blocks[i][k] = malloc(sizes[i][0])) != NULL);
      paint(blocks[i][k], sizes[i][0], i);
    }
  }
  const struct rlimit limit = {(rlim_t)status_kib("VmSize:") * KIB + 8 * MIB, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  link_t *all = NULL;
  for (size_t size = 4 * MIB; size >= sizeof *all; size /= 2) all = take_all(size, all);
  for (unsigned i = 0; i < count; i++) all = take_all(sizes[i][1] < sizeof *all ? sizeof *all : sizes[i][1], all);
  for (unsigned i = 0; i < count; i++) {
    for (unsigned k = 0; k < 3; k++) {
      CHECK((blocks[i][k] = realloc(blocks[i][k], sizes[i][1])) != NULL);
      CHECK(is_painted(blocks[i][k], sizes[i][1], i));
    }
    end(blocks[i][0], sizes[i][1]);
  }
  for (link_t *next; all != NULL; all = next) {
    next = all->next;
    free(all);
  }
  for (unsigned i = 0; i < count; i++) {
    end(blocks[i][1], sizes[i][1]);
    CHECK((blocks[i][2] = realloc(blocks[i][2], sizes[i][0] + 1)) != NULL);
    end(blocks[i][2], sizes[i][0] + 1);
  }
  return 0;
}
