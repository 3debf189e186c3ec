/* hakmem's functions for tags, of the library that is preloaded: the program is not linked with it. */
#ifndef HK_TESTS_PRELOAD_TAG_FUNCTIONS_H
#define HK_TESTS_PRELOAD_TAG_FUNCTIONS_H

#include <dlfcn.h>

#include "check.h"
#include "hakmem/hakmem.h"

static hakmem_tag_t *(*tag_create)(const char *name);
static void (*tag_push)(hakmem_tag_t *tag);
static void (*tag_pop)(void);
static void (*tag_counts)(const hakmem_tag_t *tag, hakmem_tag_counts_t *out, size_t size);

static void *function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  CHECK(found != NULL);
  return found;
}

static void find_tag_functions(void) {
  tag_create = (hakmem_tag_t * (*)(const char *)) function("hakmem_tag_create");
  tag_push = (void (*)(hakmem_tag_t *))function("hakmem_tag_push");
  tag_pop = (void (*)(void))function("hakmem_tag_pop");
  tag_counts = (void (*)(const hakmem_tag_t *, hakmem_tag_counts_t *, size_t))function("hakmem_tag_counts");
}

#endif /* HK_TESTS_PRELOAD_TAG_FUNCTIONS_H */
