/* Makes named heaps and tags for the reports: `strange` ones, whose names are any bytes, and COUNT that have little,
 * after one heap and one tag that have much: named_rows COUNT */
#include "check.h"

#include <dlfcn.h>

#include "hakmem/hakmem.h"

static hakmem_heap_t *(*heap_create)(const char *name, const hakmem_heap_options_t *options);
static void *(*heap_malloc)(hakmem_heap_t *heap, size_t size);
static hakmem_tag_t *(*tag_create)(const char *name);
static void (*tag_push)(hakmem_tag_t *tag);
static void (*tag_pop)(void);

static void *function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  CHECK(found != NULL);
  return found;
}

static void make(const char *name, int blocks) {
  hakmem_heap_t *heap = heap_create(name, NULL);
  for (int i = 0; i < blocks; i++) CHECK(heap_malloc(heap, 1000) != NULL);
  tag_push(tag_create(name));
  for (int i = 0; i < blocks; i++) {
    void *volatile block = malloc(1000);
    CHECK(block != NULL);
  }
  tag_pop();
}

int main(int count, char **words) {
  static const char *const strange[] = {
      "ctl\x01",       "ctl\x02", "ctl?", "ctl\\x01", "\xff\xfe", "\xfe\xff", "caf\xc3\xa9", "new\nline",
      "\xc2\x9b\x33m", "\"",      "\\\"", "\\",       "",         "others",   "\xe2\x82",    "\r"};
  CHECK(count == 2);
  heap_create = (hakmem_heap_t * (*)(const char *, const hakmem_heap_options_t *)) function("hakmem_heap_create");
  heap_malloc = (void *(*)(hakmem_heap_t *, size_t))function("hakmem_heap_malloc");
  tag_create = (hakmem_tag_t * (*)(const char *)) function("hakmem_tag_create");
  tag_push = (void (*)(hakmem_tag_t *))function("hakmem_tag_push");
  tag_pop = (void (*)(void))function("hakmem_tag_pop");
  make("large", 2000);
  for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) make(strange[i], 200);
  for (int i = 0; i < atoi(words[1]); i++) {
    char name[32];
    snprintf(name, sizeof name, "little %d", i);
    make(name, 1);
  }
  return 0;
}
