/* Opens a module for its caller, by its own search path. It makes no tail call, which would hide it as dlopen's caller.
 * With OPEN_EARLY it opens a module in its constructor, before the program and libraries preloaded after it have
 * begun. */
#include <dlfcn.h>
#include <stdlib.h>

void *open_module(const char *name, int flags) {
  void *volatile module = dlopen(name, flags);
  return module;
}

#ifdef OPEN_EARLY
__attribute__((constructor)) static void open_early(void) {
  void *module = open_module(OPEN_EARLY, RTLD_NOW | RTLD_DEEPBIND);
  if (module == NULL) abort();
  void (*take)(void *) = (void (*)(void *))dlsym(module, "take");
  for (size_t bytes = 1; bytes < 100000; bytes += 1 + bytes / 4) take(malloc(bytes));
}
#endif
