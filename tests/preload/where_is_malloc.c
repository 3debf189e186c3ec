/* Prints the file that each name of the interface comes from, one a line: NAME FILE. */
#include "check.h"

#include <dlfcn.h>

static const char *const names[] = {
    "malloc",        "free",      "calloc",      "realloc", "reallocarray",       "posix_memalign",
    "aligned_alloc", "memalign",  "valloc",      "pvalloc", "malloc_usable_size", "malloc_trim",
    "mallinfo",      "mallinfo2", "malloc_info", "mallopt", "malloc_stats",
};

int main(void) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, names[i]);
    CHECK(address != NULL && dladdr(address, &info) != 0);
    printf("%s %s\n", names[i], info.dli_fname);
  }
  return 0;
}
