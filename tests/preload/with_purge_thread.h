/* tests/preload/with_purge_thread.h - finds the purge thread, and gives it something to do. */
#ifndef PRELOAD_WITH_PURGE_THREAD_H
#define PRELOAD_WITH_PURGE_THREAD_H

#include "idle_memory.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

/* The memory for it to purge, and the bytes that a program may have afterwards beyond those at its start. */
#define IDLE_BYTES (64 * MIB)
#define BACK_BYTES (16 * MIB)

/* The text of /proc/self/task/THREAD/NAME; false if there is no such thread any more. Allocates nothing. */
static inline int read_of_thread(pid_t thread, const char *name, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)thread, name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : read(file, text, size - 1);
  if (file >= 0) close(file);
  text[length > 0 ? length : 0] = 0;
  return length > 0;
}

static inline int is_purge_thread(pid_t thread) {
  char name[32];
  return read_of_thread(thread, "comm", name, sizeof name) && strcmp(name, "hakmem-purge\n") == 0;
}

/* Calls `visit` for each thread of the process. opendir would allocate. */
static inline void visit_threads(void (*visit)(pid_t thread, void *argument), void *argument) {
  _Alignas(struct dirent64) char entries[4096];
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(folder >= 0);
  long length;
  while ((length = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < length; at += ((struct dirent64 *)(entries + at))->d_reclen) {
      const pid_t thread = atoi(((struct dirent64 *)(entries + at))->d_name);
      if (thread != 0) visit(thread, argument);
    }
  }
  CHECK(length == 0);
  close(folder);
}

static inline void note_purge_thread(pid_t thread, void *found) {
  if (is_purge_thread(thread)) *(pid_t *)found = thread;
}

/* Its thread id, or 0 if there is none. */
static inline pid_t find_purge_thread(void) {
  pid_t found = 0;
  visit_threads(note_purge_thread, &found);
  return found;
}

/* The program's alarm ends a wait that lasts for ever. */
static inline pid_t await_purge_thread(void) {
  pid_t thread;
  while ((thread = find_purge_thread()) == 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return thread;
}

static inline void await_its_end(void) {
  while (find_purge_thread() != 0) wait_beats(1);
}

static inline void await_resident(size_t bytes) {
  while (resident_bytes() > bytes) wait_beats(1);
}

/* Idle memory that was wanted again at once, twice: to keep it for a while is right. */
static inline void leave_idle(size_t bytes) {
  for (int i = 0; i < 3; ++i) free_chain(take_chain(64 * KIB, bytes));
}

static atomic_int is_memory_idle, may_idle_thread_end;
static pthread_t idle_thread;

static inline void *leave_idle_and_live(void *unused) {
  leave_idle(IDLE_BYTES);
  is_memory_idle = 1;
  while (!may_idle_thread_end) wait_beats(1);
  return unused;
}

/* A second thread takes memory, frees it, and then does nothing until it is told to end. */
static inline void start_idle_thread(void) {
  is_memory_idle = 0;
  CHECK(pthread_create(&idle_thread, NULL, leave_idle_and_live, NULL) == 0);
  while (!is_memory_idle) wait_beats(1);
}

static inline void end_idle_thread(void) {
  may_idle_thread_end = 1;
  CHECK(pthread_join(idle_thread, NULL) == 0);
}

#endif /* PRELOAD_WITH_PURGE_THREAD_H */
