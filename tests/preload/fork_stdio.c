/* Forks while other threads hold the C library's stream locks and allocate under them: fork_stdio FORKS
 *
 * fork takes the list of streams before its handlers have run; a handler that waits for a lock which a thread holds
 * that waits for the list would wait for ever. Prints `ok`.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { patience_seconds = 60 };

static atomic_int is_over;

static void *flush_all(void *unused) {
  while (!is_over) fflush(NULL);
  return unused;
}

static ssize_t write_and_allocate(void *unused, const char *text, size_t length) {
  (void)unused;
  (void)text;
  free(malloc(length % 3000 + 1));
  return (ssize_t)length;
}

static void *open_and_close(void *unused) {
  while (!is_over) {
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    FILE *cookie = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_and_allocate});
    CHECK(memory != NULL && cookie != NULL);
    for (int i = 0; i < 50; ++i) {
      fprintf(memory, "%d some text that makes the stream grow\n", i);
      fprintf(cookie, "%d some text\n", i);
    }
    CHECK(fclose(memory) == 0 && fclose(cookie) == 0 && length > 1000);
    free(text);
  }
  return unused;
}

/* A real file and its reader: fopen and fclose change the list, getline allocates under the stream's own lock. */
static void *read_file(void *unused) {
  char *line = NULL;
  size_t room = 0;
  while (!is_over) {
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (getline(&line, &room, file) > 0) continue;
    CHECK(fclose(file) == 0);
  }
  free(line);
  return unused;
}

/* popen goes through the streams of all other popens, under the list's lock, to close them in its child. */
static void *start_programs(void *unused) {
  while (!is_over) {
    FILE *pipe = popen("exec true", "r"), *other = popen("exec true", "w");
    CHECK(pipe != NULL && other != NULL);
    CHECK(pclose(pipe) == 0 && pclose(other) == 0);
  }
  return unused;
}

static void *allocate(void *unused) {
  unsigned state = 5;
  while (!is_over) free(malloc(1 + next_random(&state) % 100000));
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  void *(*const works[])(void *) = {flush_all, open_and_close, read_file, start_programs, allocate};
  enum { thread_count = sizeof works / sizeof *works };
  pthread_t threads[thread_count];
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, works[i], NULL) == 0);
  for (int i = 0; i < atoi(argv[1]); ++i) {
    alarm(patience_seconds);
    const pid_t child = fork();
    if (child == 0) {
      alarm(patience_seconds / 2);
      free(malloc(100));
      _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  is_over = 1;
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  puts("ok");
  return 0;
}
