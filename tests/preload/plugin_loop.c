/* Opens and closes a plugin that has an allocator of its own (shim/static_plugin.c): plugin_loop PLUGIN ROUNDS
 *
 * Blocks and threads outlive the plugin: blocks keep their contents and are freed when it is open again, and threads
 * that used it end when it is closed. Memory must not grow with the rounds. Prints `ok`.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

enum { block_count = 4, growth_limit_kib = 2048, patience_seconds = 60 };

static const size_t sizes[block_count] = {30, 3000, 60000, 1500000};
static const char *path;
static char *blocks[block_count];
static pthread_barrier_t witness_has_used_it, all_is_over;

static void use(void *plugin) {
  void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(plugin, "plugin_allocate");
  void (*release)(void *) = (void (*)(void *))dlsym(plugin, "plugin_release");
  int (*owns)(const void *) = (int (*)(const void *))dlsym(plugin, "plugin_owns");
  CHECK(allocate != NULL && release != NULL && owns != NULL);
  char *of_program = malloc(100);
  CHECK(!owns(of_program));
  free(of_program);
  for (int i = 0; i < block_count; ++i) {
    CHECK(is_painted(blocks[i], blocks[i] == NULL ? 0 : sizes[i], i));
    if (blocks[i] != NULL) CHECK(owns(blocks[i]));
    release(blocks[i]);
    blocks[i] = allocate(sizes[i]);
    CHECK(blocks[i] != NULL && owns(blocks[i]));
    paint(blocks[i], sizes[i], i);
  }
}

static void open_use_close(void) {
  void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) dprintf(2, "%s\n", dlerror());
  CHECK(plugin != NULL);
  use(plugin);
  CHECK(dlclose(plugin) == 0);
  for (int i = 0; i < block_count; ++i) CHECK(is_painted(blocks[i], sizes[i], i));
}

static void *use_and_end(void *unused) {
  open_use_close();
  return unused;
}

static void *use_and_stay(void *unused) {
  open_use_close();
  pthread_barrier_wait(&witness_has_used_it);
  pthread_barrier_wait(&all_is_over);
  return unused;
}

static void fork_when_closed(void) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(patience_seconds);
    open_use_close();
    _exit(0);
  }
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  alarm(patience_seconds);
  path = argv[1];
  const int rounds = atoi(argv[2]);
  pthread_t witness;
  CHECK(pthread_barrier_init(&witness_has_used_it, NULL, 2) == 0 && pthread_barrier_init(&all_is_over, NULL, 2) == 0);
  CHECK(pthread_create(&witness, NULL, use_and_stay, NULL) == 0);
  pthread_barrier_wait(&witness_has_used_it);
  long resident = 0, mapped = 0;
  for (int round = 0; round < rounds; ++round) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_and_end, NULL) == 0 && pthread_join(thread, NULL) == 0);
    open_use_close();
    if (round % 100 == 0) fork_when_closed();
    if (round == rounds / 4) resident = status_kib("VmRSS"), mapped = status_kib("VmSize");
  }
  CHECK(status_kib("VmRSS") - resident <= growth_limit_kib && status_kib("VmSize") - mapped <= growth_limit_kib);
  pthread_barrier_wait(&all_is_over);
  CHECK(pthread_join(witness, NULL) == 0);
  puts("ok");
  return 0;
}
