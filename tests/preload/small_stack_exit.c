/* A thread with the smallest stack ends the process: small_stack_exit [BYTES]. It has used BYTES of the stack by
 * then. */
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { count = 300 };

static void *blocks[count];

/* Calls exit from a frame of `bytes`. */
static __attribute__((noinline)) void end_above(size_t bytes) {
  volatile char *room = __builtin_alloca(bytes + 1);
  room[0] = 1;
  room[bytes] = 1;
  exit(0);
}

static void *work(void *bytes) {
  for (int i = 0; i < count; i++) CHECK((blocks[i] = malloc((size_t)i * 100)) != NULL);
  for (int i = 0; i < count; i += 2) free(blocks[i]);
  end_above((size_t)(uintptr_t)bytes);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
  uintptr_t bytes = argc > 1 ? (uintptr_t)strtoul(argv[1], NULL, 10) : 0;
  pthread_t thread;
  CHECK(pthread_create(&thread, &attributes, work, (void *)bytes) == 0);
  (void)pthread_join(thread, NULL);
  return 1;
}
