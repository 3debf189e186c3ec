/* Opens FOLDER/0.so ... (shim/tls_library.c, copied), all at once, and closes them: dlopen_many FOLDER COUNT WORDS
 *
 * Threads allocate meanwhile, and write to their WORDS thread-local words of each library as soon as it is open. ld.so
 * allocates these, and the table of them, in the middle of whatever a thread is at. Prints `ok`.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { thread_count = 3, most_libraries = 2000, patience_seconds = 100 };

static long *(*locals[most_libraries])(void);
static void *libraries[most_libraries];
static int count, words;
static atomic_int open_count;

static void *use_all(void *argument) {
  const unsigned self = (unsigned)(uintptr_t)argument;
  unsigned state = self;
  for (int used = 0; used < count;) {
    for (const int end = open_count; used < end; ++used) {
      long *local = locals[used]();
      for (int i = 0; i < words; ++i) CHECK(local[i] == 0);
      paint(local, words * sizeof *local, self + used);
    }
    free(malloc(1 + next_random(&state) % 50000));
  }
  for (int i = 0; i < count; ++i) CHECK(is_painted(locals[i](), words * sizeof(long), self + i));
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 4) return exit_usage;
  count = atoi(argv[2]);
  words = atoi(argv[3]);
  CHECK(count <= most_libraries);
  alarm(patience_seconds);
  pthread_t threads[thread_count];
  for (uintptr_t i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, use_all, (void *)(i + 1)) == 0);
  for (int i = 0; i < count; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.so", argv[1], i);
    libraries[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (libraries[i] == NULL) dprintf(2, "%s\n", dlerror());
    CHECK(libraries[i] != NULL);
    locals[i] = (long *(*)(void))dlsym(libraries[i], "tls_library_local");
    CHECK(locals[i] != NULL && (i == 0 || locals[i] != locals[i - 1]));
    open_count = i + 1;
  }
  use_all((void *)(uintptr_t)9);
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < count; ++i) CHECK(dlclose(libraries[i]) == 0);
  puts("ok");
  return 0;
}
