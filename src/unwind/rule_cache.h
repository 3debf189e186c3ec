/* unwind/rule_cache.h - L6. Rules that were worked out before. Any thread reads and writes, nobody waits: an entry that was
 * written by two at a time, or half, is none. */
#ifndef HK_UNWIND_RULE_CACHE_H
#define HK_UNWIND_RULE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame_rule.h"
#include "unwind/module.h"

HK_C_BEGIN

/* The rule for an address of a module (all zero: of none), if it is here. */
bool hk_rule_cache_get(uintptr_t pc, const hk_module_t *module, hk_frame_rule_t *rule);
void hk_rule_cache_put(uintptr_t pc, const hk_module_t *module, const hk_frame_rule_t *rule);

HK_C_END

#endif /* HK_UNWIND_RULE_CACHE_H */
