/* The purge thread comes when there is something for it to do, does it, sleeps, and goes: purge_comes idle|late|LIBRARY
 *
 * `late`: a second thread is there, and some memory in use, long before anything is idle. LIBRARY is loaded for this
 * program alone, with dlopen, asked for the memory by its own names, and closed while the thread is there. Prints
 * `came`, `back` when little is resident any more, and `went` when the program has one thread left.
 */
#include "with_purge_thread.h"

#include <dlfcn.h>

#define IN_USE_BYTES (4 * MIB)

/* While nothing is due: it may look whether it is still wanted. */
enum { most_wakes_a_second = 4 };

static void say(const char *word) { CHECK(write(1, word, strlen(word)) == (ssize_t)strlen(word)); }

static void *name_in(void *library, const char *name) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  return found;
}

static void *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) dprintf(2, "%s\n", dlerror());
  CHECK(library != NULL);
  take = (void *(*)(size_t))name_in(library, "hakmem_malloc");
  give = (void (*)(void *))name_in(library, "hakmem_free");
  return library;
}

static atomic_int is_in_use, may_idle;

static void *use_then_leave_idle(void *unused) {
  block_t *chain = take_chain(64 * KIB, IN_USE_BYTES);
  is_in_use = 1;
  while (!may_idle) wait_beats(1);
  free_chain(chain);
  return leave_idle_and_live(unused);
}

static void start_late(void) {
  CHECK(pthread_create(&idle_thread, NULL, use_then_leave_idle, NULL) == 0);
  while (!is_in_use) wait_beats(1);
  for (int i = 0; i < beats_a_second / 2; ++i) {
    CHECK(find_purge_thread() == 0);
    wait_beats(1);
  }
  may_idle = 1;
}

/* How often it went to sleep by itself, as the kernel counts. */
static long sleeps_of(pid_t thread) {
  char text[4096];
  if (!read_of_thread(thread, "status", text, sizeof text)) return 0;
  const char *line = strstr(text, "\nvoluntary_ctxt_switches:");
  CHECK(line != NULL);
  return atol(line + strlen("\nvoluntary_ctxt_switches:"));
}

static long now_ms(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Where other programs have the cores, these beats take longer than a second. */
static int sleeps_well(pid_t thread) {
  const long start = now_ms(), before = sleeps_of(thread);
  wait_beats(beats_a_second);
  const long wakes = sleeps_of(thread) - before;
  return wakes * 1000 <= most_wakes_a_second * (now_ms() - start);
}

/* What little is left may still be due for a while. If it never came to rest, the alarm would end this. */
static void await_sleep(pid_t thread) {
  while (!sleeps_well(thread)) continue;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  alarm(30);
  void *library = strchr(argv[1], '/') != NULL ? load(argv[1]) : NULL;
  const size_t before = resident_bytes();
  CHECK(find_purge_thread() == 0);
  give(take(100)); /* the main thread is known to the allocator, too */
  (strcmp(argv[1], "late") == 0 ? start_late : start_idle_thread)();
  const pid_t thread = await_purge_thread();
  say("came\n");
  if (library != NULL) CHECK(dlclose(library) == 0);
  await_resident(before + BACK_BYTES);
  say("back\n");
  await_sleep(thread);
  end_idle_thread();
  await_its_end();
  say("went\n");
  return 0;
}
