/* inspect/sample.h - L8. The sampled blocks that are live, by address. Nothing is known of a sample but what is here: no word
 * in the block, or beside it, is believed.
 *
 * Tables in memory of our own, each four times as large as the one before, made as they are needed and never given back. An
 * address may be in a few places of each; who looks for one looks at all of them. No locks: an entry belongs to whoever's
 * compare-and-swap marked its key as busy. The last of these that were freed stay, marked, so that a second free of one is
 * told from a pointer into some block.
 */
#ifndef HK_INSPECT_SAMPLE_H
#define HK_INSPECT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "base/compiler.h"

HK_C_BEGIN

/* False when there is no room for it. The address is in no live sample. */
bool hk_sample_enter(const hk_sample_t *sample);

/* Takes a live one out and tells what it was; false when another thread was first, or there is none. `is_freed`: it is to be
 * known as freed. */
bool hk_sample_leave(uintptr_t address, bool is_freed, hk_sample_t *sample);

/* Calls `visit` for each live one, with a copy. What comes and goes meanwhile may be among them or not. */
void hk_sample_visit(void (*visit)(const hk_sample_t *sample, void *context), void *context);

/* Calls `visit` for each range of memory that the tables are in. */
void hk_sample_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

HK_C_END

#endif /* HK_INSPECT_SAMPLE_H */
