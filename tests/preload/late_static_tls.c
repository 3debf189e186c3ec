/* How much static TLS is left to a library that is opened late: late_static_tls FOLDER COUNT [LIBRARY]
 *
 * Opens FOLDER/0.so ... (shim/tls_library.c, one word each, copied), COUNT of them or as many as fit, then LIBRARY.
 * Prints how many of the first it opened, and `ok` or why LIBRARY could not be had.
 */
#include "check.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4) return exit_usage;
  int opened = 0;
  for (; opened < atoi(argv[2]); ++opened) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.so", argv[1], opened);
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL) break;
  }
  printf("%d\n", opened);
  if (argc == 4) puts(dlopen(argv[3], RTLD_NOW | RTLD_LOCAL) != NULL ? "ok" : dlerror());
  return 0;
}
