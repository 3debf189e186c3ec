/* Has addresses of every kind in `addresses`, writes what hakmem_describe says of each to the file argv[1], and
 * stops itself: for a debugger to look at. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

enum { most = 64 };
char *addresses[most];
int address_count;

static void *allocate(void *unused) {
  free(malloc(40)); /* its heap stays, and its span with this block */
  return malloc(40);
}

static void add(void *where) {
  CHECK(address_count < most);
  addresses[address_count++] = (char *)where;
}

int main(int argc, char **argv) {
  /* The heap keeps the last freed run, of three slabs. */
  const size_t sizes[] = {1, 64, 1000, 1500, 30000, 100000, 700000, 3000000, 150000};
  add(NULL);
  add((void *)24);
  add((void *)0x7fff00000000);
  add((void *)(uintptr_t)0x9876543212345678);
  add(&address_count);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *below = malloc(sizes[i]), *block = malloc(sizes[i]), *freed = malloc(sizes[i]), *above = malloc(sizes[i]);
    CHECK(below != NULL && block != NULL && freed != NULL && above != NULL);
    free(freed);
    add(block);
    add(block + 3);
    add(block + sizes[i] / 2);
    add(freed);
    add(freed + sizes[i] / 2);
  }
  char *nothing = malloc(0), *freed_nothing = malloc(0);
  CHECK(nothing != NULL && freed_nothing != NULL);
  free(freed_nothing);
  add(nothing);
  add(freed_nothing);
  char *small = malloc(48);
  uintptr_t slab = (uintptr_t)small & ~(uintptr_t)0xffff;
  add((void *)(slab + 0xffff));
  add((void *)(slab + 0xfff0 - 0x30));
  pthread_t thread;
  void *left;
  CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0 && pthread_join(thread, &left) == 0);
  add(left);

  size_t (*describe)(const void *, char *, size_t) =
      (size_t(*)(const void *, char *, size_t))dlsym(RTLD_DEFAULT, "hakmem_describe");
  CHECK(argc == 2);
  int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0);
  for (int i = 0; i < address_count; i++) {
    char text[600] = "";
    if (describe != NULL) describe(addresses[i], text, sizeof text);
    dprintf(file, "%s\n", text);
  }
  raise(SIGTRAP);
  return 0;
}
