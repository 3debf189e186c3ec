/* profile/rule_cache.c - L5. See rule_cache.h. An entry is the rule's words and a checksum over them, the address and the module: what
 * does not fit together is not believed. */
#include "profile/rule_cache.h"

#include <string.h>

#include "base/atomic.h"

/* 80 KiB, of which a program touches what its stacks need. */
#define ENTRY_COUNT_SHIFT 11
#define RULE_WORDS 4

typedef struct {
  _Atomic(uint64_t) check; /* 0: empty */
  _Atomic(uint64_t) words[RULE_WORDS];
} entry_t;

static entry_t entries[1u << ENTRY_COUNT_SHIFT];

static uint64_t mix(uint64_t value, uint64_t more) {
  value = (value ^ more) * UINT64_C(0x9e3779b97f4a7c15);
  return value ^ value >> 29;
}

static uint64_t key_of(uintptr_t pc, const hk_module_t *module) { return mix(mix(pc, module->start), module->index); }

static entry_t *entry_of(uintptr_t pc) {
  return &entries[(uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - ENTRY_COUNT_SHIFT)];
}

static uint64_t check_of(uint64_t key, const uint64_t *words) {
  for (unsigned i = 0; i < RULE_WORDS; i++) key = mix(key, words[i]);
  return key | 1;
}

bool hk_rule_cache_get(uintptr_t pc, const hk_module_t *module, hk_frame_rule_t *rule) {
  entry_t *entry = entry_of(pc);
  uint64_t words[RULE_WORDS];
  for (unsigned i = 0; i < RULE_WORDS; i++) words[i] = hk_load_relaxed(&entry->words[i]);
  if (hk_load_relaxed(&entry->check) != check_of(key_of(pc, module), words)) return false;
  memcpy(rule, words, sizeof *rule);
  return true;
}

void hk_rule_cache_put(uintptr_t pc, const hk_module_t *module, const hk_frame_rule_t *rule) {
  entry_t *entry = entry_of(pc);
  uint64_t words[RULE_WORDS] = {0};
  memcpy(words, rule, sizeof *rule);
  for (unsigned i = 0; i < RULE_WORDS; i++) hk_store_relaxed(&entry->words[i], words[i]);
  hk_store_relaxed(&entry->check, check_of(key_of(pc, module), words));
}
