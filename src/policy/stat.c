/* policy/stat.c - L2. The counters of the process, and the text of every counter. */
#include "policy/stat.h"

#include <assert.h>

hk_stat_set_t hk_stat_process;

void hk_stat_sum(uint64_t *into, const hk_stat_set_t *from) {
  for (unsigned id = 0; id < hk_stat_count; id++) into[id] += hk_load_relaxed(&from->value[id]);
}

void hk_stat_clear(hk_stat_set_t *set) {
  for (unsigned id = 0; id < hk_stat_count; id++) hk_store_relaxed(&set->value[id], 0);
}

#define UNIT_COUNT "count"
#define UNIT_BYTES "bytes"
const hk_stat_text_t hk_stat_text[hk_stat_count] = {
#define HK_STAT(name, unit, help) {#name, UNIT_##unit, help},
#include "policy/stat.def"
};

#define HK_STAT(id, unit, text)                                                                       \
  static_assert(sizeof #id <= sizeof hk_stat_text->name && sizeof(text) <= sizeof hk_stat_text->help, \
                "the text fits with its zero byte");
#include "policy/stat.def"
