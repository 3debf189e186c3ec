/* unwind/rule_cache.h - L6. Keeps rules that a walk has found in unwind tables. Any thread reads and writes without
 * waiting. An entry that two threads wrote at once, or one wrote in part, is not found. */
#ifndef HK_UNWIND_RULE_CACHE_H
#define HK_UNWIND_RULE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame_rule.h"
#include "unwind/module.h"

HK_C_BEGIN

/* Copies the rule for an address of a module (all zero: of no module). Returns false when the cache does not have
 * it. */
bool hk_rule_cache_get(uintptr_t pc, const hk_module_t *module, hk_frame_rule_t *rule);
void hk_rule_cache_put(uintptr_t pc, const hk_module_t *module, const hk_frame_rule_t *rule);

/* Forgets all rules. A module that was unloaded may have had addresses that the next one gets. */
void hk_rule_cache_forget(void);

HK_C_END

#endif /* HK_UNWIND_RULE_CACHE_H */
