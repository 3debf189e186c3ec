/* policy/old_figure.c - L2. See old_figure.h. */
#include "policy/old_figure.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Arrays, because the dynamic linker has to write each pointer in a table before the program starts. */
static const struct {
  char section[12];
  char old[24];
  char name[24];
} old_figures[] = {
#define HK_OLD_FIGURE(section, old, name) {#section, #old, #name},
#include "policy/old_figure.def"
};

#define HK_OLD_FIGURE(a, b, c)                                                                      \
  static_assert(sizeof #a <= sizeof old_figures->section && sizeof #b <= sizeof old_figures->old && \
                    sizeof #c <= sizeof old_figures->name,                                          \
                "the text fits with its zero byte");
#include "policy/old_figure.def"

const char *hk_old_figure_name(const char *section, const char *name) {
  for (size_t i = 0; i < sizeof old_figures / sizeof *old_figures; i++) {
    if (strcmp(old_figures[i].section, section) == 0 && strcmp(old_figures[i].name, name) == 0)
      return old_figures[i].old;
  }
  return NULL;
}
