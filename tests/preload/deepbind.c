/* Opens modules with RTLD_DEEPBIND, and exchanges blocks with them: deepbind HOW [FILE...]
 *
 * open|base FILE    by dlopen, by dlmopen into the program's own namespace
 * new FILE          by dlmopen into a new one: no block crosses its border
 * self              the program itself
 * missing FILE      what dlopen refuses
 * by OPENER NAME    by a library, with what that library calls it
 * Prints `ok`. */
#include "check.h"

#include <dlfcn.h>

enum { flags = RTLD_NOW | RTLD_DEEPBIND, count = 1000 };

static void *symbol(void *module, const char *name) {
  void *found = dlsym(module, name);
  CHECK(found != NULL);
  return found;
}

static void exchange(void *module) {
  CHECK(module != NULL);
  void (*take)(void *) = symbol(module, "take");
  void *(*give)(size_t) = symbol(module, "give");
  for (size_t i = 1; i < count; i++) {
    char *block = malloc(i * 40);
    paint(block, i * 40, 1);
    take(block);
    block = give(i * 40);
    CHECK(is_painted(block, i * 40, 7));
    free(block);
  }
  CHECK(dlclose(module) == 0);
}

static void stay_apart(void *module) {
  CHECK(module != NULL);
  void (*take)(void *) = symbol(module, "take");
  void *(*give)(size_t) = symbol(module, "give");
  for (size_t i = 1; i < count; i++) take(give(i * 40));
  CHECK(dlclose(module) == 0);
}

static void be_refused(const char *file) {
  CHECK(dlopen(file, flags) == NULL);
  const char *why = dlerror();
  CHECK(why != NULL && strstr(why, file) != NULL);
  CHECK(dlopen(file, RTLD_DEEPBIND) == NULL); /* neither lazy nor now */
  why = dlerror();
  CHECK(why != NULL && strstr(why, "invalid mode") != NULL);
}

static void *open_by(const char *opener, const char *name) {
  void *library = dlopen(opener, RTLD_NOW);
  CHECK(library != NULL);
  void *(*open_module)(const char *, int) = symbol(library, "open_module");
  return open_module(name, flags);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "", *file = argc > 2 ? argv[2] : NULL;
  if (strcmp(how, "open") == 0) {
    exchange(dlopen(file, flags));
  } else if (strcmp(how, "base") == 0) {
    exchange(dlmopen(LM_ID_BASE, file, flags));
  } else if (strcmp(how, "new") == 0) {
    stay_apart(dlmopen(LM_ID_NEWLM, file, flags));
  } else if (strcmp(how, "self") == 0) {
    CHECK(dlopen(NULL, flags) == dlopen(NULL, RTLD_NOW));
  } else if (strcmp(how, "missing") == 0) {
    be_refused(file);
  } else if (strcmp(how, "by") == 0) {
    exchange(open_by(file, argv[3]));
  } else {
    return exit_usage;
  }
  return puts("ok") < 0;
}
