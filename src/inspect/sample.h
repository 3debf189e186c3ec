/* inspect/sample.h - L8. The table of live sampled blocks by address. The table alone describes a sample: no word in
 * the block or beside it is read for that.
 *
 * The table is a list of tables in mapped memory. Each is four times as large as the one before, is made when it is
 * needed, and is never unmapped. An address has a few possible places in each table, and a look-up tries all of them.
 * There are no locks: an entry belongs to the thread whose compare-exchange marked its key as busy. The most recently
 * freed samples stay, marked as freed, so that a second free of one is told from a pointer into another block.
 */
#ifndef HK_INSPECT_SAMPLE_H
#define HK_INSPECT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "base/compiler.h"

HK_C_BEGIN

/* Enters a sample. Returns false when there is no room for it. Requires that no live sample has the address. */
bool hk_sample_enter(const hk_sample_t *sample);

/* Removes a live sample and copies it to `sample`. Returns false when there is none, or another thread was first. With
 * `stays_known`, the address stays known as that of a freed sample. */
bool hk_sample_leave(uintptr_t address, bool stays_known, hk_sample_t *sample);

/* Calls `visit` with a copy of each live sample. A sample that is entered or removed meanwhile may be visited or
 * not. */
void hk_sample_visit(void (*visit)(const hk_sample_t *sample, void *context), void *context);

/* Calls `visit` for each range of memory that holds a table. */
void hk_sample_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

HK_C_END

#endif /* HK_INSPECT_SAMPLE_H */
