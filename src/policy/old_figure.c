/* policy/old_figure.c - L2. See old_figure.h. */
#include "policy/old_figure.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *section;
  const char *old;
  const char *name;
} old_figures[] = {
#define HK_OLD_FIGURE(section, old, name) {#section, #old, #name},
#include "policy/old_figure.def"
};

const char *hk_old_figure_name(const char *section, const char *name) {
  for (size_t i = 0; i < sizeof old_figures / sizeof *old_figures; i++) {
    if (strcmp(old_figures[i].section, section) == 0 && strcmp(old_figures[i].name, name) == 0)
      return old_figures[i].old;
  }
  return NULL;
}
