/* unwind/rule_cache.c - L6. See rule_cache.h. An entry is the rule's words and a checksum over them, the address and
 * the module. An entry with a wrong checksum counts as another address's.
 *
 * An address may be in any entry of its set. With one entry for each, two addresses that all of a program's stacks pass
 * could replace one another at each walk, and finding a rule anew takes a dozen system calls. */
#include "unwind/rule_cache.h"

#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"

/* 80 KiB. A program touches the part that its stacks need. */
#define SET_COUNT_SHIFT 9
#define WAYS 4
#define RULE_WORDS 4

typedef struct {
  _Atomic(uint64_t) check; /* 0: empty */
  _Atomic(uint64_t) words[RULE_WORDS];
} entry_t;

#define ENTRY_COUNT ((1u << SET_COUNT_SHIFT) * WAYS)

static entry_t entries[ENTRY_COUNT];
static _Atomic(bool) has_entries; /* false: no entry was ever written, and their memory was never touched */

static uint64_t key_of(uintptr_t pc, const hk_module_t *module) {
  return hk_hash_add(hk_hash_add(pc, module->start), module->index);
}

static entry_t *set_of(uintptr_t pc) { return &entries[(hk_hash(pc) >> (64 - SET_COUNT_SHIFT)) * WAYS]; }

static uint64_t check_of(uint64_t key, const uint64_t *words) {
  for (unsigned i = 0; i < RULE_WORDS; i++) key = hk_hash_add(key, words[i]);
  return key | 1;
}

static bool read(const entry_t *entry, uint64_t key, uint64_t *words) {
  uint64_t check = hk_load_relaxed(&entry->check);
  if (check == 0) return false;
  for (unsigned i = 0; i < RULE_WORDS; i++) words[i] = hk_load_relaxed(&entry->words[i]);
  return check == check_of(key, words);
}

bool hk_rule_cache_get(uintptr_t pc, const hk_module_t *module, hk_frame_rule_t *rule) {
  const entry_t *set = set_of(pc);
  uint64_t key = key_of(pc, module), words[RULE_WORDS];
  for (unsigned way = 0; way < WAYS; way++) {
    if (!read(&set[way], key, words)) continue;
    memcpy(rule, words, sizeof *rule);
    return true;
  }
  return false;
}

/* Returns an empty entry of the address's set; else one that the address's hash chooses. */
static entry_t *choose(uintptr_t pc) {
  entry_t *set = set_of(pc);
  for (unsigned way = 0; way < WAYS; way++) {
    if (hk_load_relaxed(&set[way].check) == 0) return &set[way];
  }
  return &set[(hk_hash(pc) >> 32) % WAYS];
}

void hk_rule_cache_put(uintptr_t pc, const hk_module_t *module, const hk_frame_rule_t *rule) {
  entry_t *entry = choose(pc);
  uint64_t words[RULE_WORDS] = {0};
  memcpy(words, rule, sizeof *rule);
  for (unsigned i = 0; i < RULE_WORDS; i++) hk_store_relaxed(&entry->words[i], words[i]);
  hk_store_relaxed(&entry->check, check_of(key_of(pc, module), words));
  if (!hk_load_relaxed(&has_entries)) hk_store_relaxed(&has_entries, true);
}

void hk_rule_cache_forget(void) {
  if (!hk_load_relaxed(&has_entries)) return;
  for (unsigned i = 0; i < ENTRY_COUNT; i++) {
    if (hk_load_relaxed(&entries[i].check) != 0) hk_store_relaxed(&entries[i].check, 0);
  }
}
