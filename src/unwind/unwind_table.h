/* unwind/unwind_table.h - L6. Finds the rule for an address in the unwind tables of one module (.eh_frame_hdr and
 * .eh_frame). */
#ifndef HK_UNWIND_UNWIND_TABLE_H
#define HK_UNWIND_UNWIND_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame_rule.h"
#include "unwind/memory_reader.h"

HK_C_BEGIN

/* Looks the address up in the tables whose index (.eh_frame_hdr) is at `index`. Returns false when they have no rule
 * for it. Reads by copies and checks what it reads: damaged tables give no rule, or a wrong one, in bounded time.
 * Slow: a dozen system calls. `reader` is working memory; its contents do not matter. */
bool hk_unwind_table_find(uintptr_t index, uintptr_t pc, hk_frame_rule_t *rule, hk_memory_reader_t *reader);

HK_C_END

#endif /* HK_UNWIND_UNWIND_TABLE_H */
