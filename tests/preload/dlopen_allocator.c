/* Loads the allocator itself into a program that runs on another malloc: dlopen_allocator LIBRARY
 *
 * Only its own names are used. Both allocators must work side by side, in threads too, and each must know its own
 * blocks. Threads that used it end after it was closed. Prints `ok`.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { thread_count = 3, shared_count = 32 };

static void *(*allocate)(size_t);
static void *(*resize)(void *, size_t);
static void (*release)(void *);
static _Bool (*owns)(const void *);
static _Atomic(void *) theirs_shared[shared_count], ours_shared[shared_count];
static pthread_barrier_t all_have_worked, it_is_closed;

static size_t shorter(size_t size) { return size < 100 ? size : 100; }

/* Each way a block may go: grown, and freed by this thread or by another. */
static void work(void) {
  for (int i = 0; i < 20000; ++i) {
    const size_t size = 1 + (size_t)i * 7919 % 40000;
    char *theirs = allocate(size), *ours = malloc(size);
    CHECK(theirs != NULL && ours != NULL && owns(theirs) && !owns(ours));
    paint(theirs, shorter(size), 1);
    paint(ours, shorter(size), 2);
    theirs = resize(theirs, size * 2);
    ours = realloc(ours, size * 2);
    CHECK(theirs != NULL && ours != NULL && owns(theirs) && !owns(ours));
    CHECK(is_painted(theirs, shorter(size), 1) && is_painted(ours, shorter(size), 2));
    release(atomic_exchange(&theirs_shared[i % shared_count], theirs));
    free(atomic_exchange(&ours_shared[i % shared_count], ours));
  }
}

static void *live(void *unused) {
  work();
  pthread_barrier_wait(&all_have_worked);
  pthread_barrier_wait(&it_is_closed);
  return unused;
}

static void *name_in(void *library, const char *name) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  return found;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  alarm(60);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) dprintf(2, "%s\n", dlerror());
  CHECK(library != NULL);
  allocate = (void *(*)(size_t))name_in(library, "hakmem_malloc");
  resize = (void *(*)(void *, size_t))name_in(library, "hakmem_realloc");
  release = (void (*)(void *))name_in(library, "hakmem_free");
  owns = (_Bool(*)(const void *))name_in(library, "hakmem_check_owned");
  CHECK(name_in(library, "malloc") != name_in(RTLD_DEFAULT, "malloc"));
  CHECK(pthread_barrier_init(&all_have_worked, NULL, thread_count + 1) == 0);
  CHECK(pthread_barrier_init(&it_is_closed, NULL, thread_count + 1) == 0);
  pthread_t threads[thread_count];
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, live, NULL) == 0);
  work();
  pthread_barrier_wait(&all_have_worked);
  for (int i = 0; i < shared_count; ++i) free(ours_shared[i]);
  dlclose(library); /* its memory must not go from under us, nor its code from under the threads */
  for (int i = 0; i < shared_count; ++i) CHECK(is_painted(theirs_shared[i], 1, 1));
  pthread_barrier_wait(&it_is_closed);
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  puts("ok");
  return 0;
}
