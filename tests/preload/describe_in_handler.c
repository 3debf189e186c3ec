/* A signal handler asks hakmem_describe for blocks of several kinds. Its alternate stack has room for the frame of the
 * kernel and a page, as many programs' have, and lies above an inaccessible page. */
#include "check.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

static size_t (*describe)(const void *address, char *buffer, size_t bytes);
static const char *address;
static char line[2048];

static void handle(int signal) {
  (void)signal;
  describe(address, line, sizeof line);
}

static void give_small_stack(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t told = getauxval(AT_MINSIGSTKSZ); /* 0 from a kernel that does not know it */
  size_t frame = told == 0 ? page : (told + page - 1) / page * page, bytes = frame + page;
  char *start = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(start != MAP_FAILED && mprotect(start, page, PROT_NONE) == 0);
  stack_t stack = {.ss_sp = start + page, .ss_size = bytes};
  CHECK(sigaltstack(&stack, NULL) == 0);
}

static void ask(const char *block) {
  address = block;
  line[0] = '\0';
  CHECK(raise(SIGUSR1) == 0);
  CHECK(strstr(line, " is ") != NULL);
}

int main(void) {
  describe = (size_t(*)(const void *, char *, size_t))dlsym(RTLD_DEFAULT, "hakmem_describe");
  CHECK(describe != NULL);
  give_small_stack();
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  const size_t sizes[] = {40, 3000, 100000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *block = malloc(sizes[i]);
    CHECK(block != NULL);
    ask(block);
    ask(block + sizes[i] + 16);
    free(block);
    ask(block);
  }
  ask(line);
  return 0;
}
