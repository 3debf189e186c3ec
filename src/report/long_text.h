/* report/long_text.h - L9. Room for a long text in its own mapping, for callers that must not allocate. */
#ifndef HK_REPORT_LONG_TEXT_H
#define HK_REPORT_LONG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/format.h"
#include "base/units.h"

HK_C_BEGIN

/* Chosen: room for a report of some 10,000 heaps and 20,000 superslabs, and for a profile with the most sites. */
#define HK_LONG_TEXT_BYTES (64 * HK_MIB)

/* Begins an empty text with room for `least_bytes`. The text grows up to HK_LONG_TEXT_BYTES, or as far as the system
 * allows. It starts small because its memory is resident at once in a program that locks its memory. Returns false when
 * the system refuses `least_bytes`. */
bool hk_long_text_begin(hk_format_t *text, size_t least_bytes);

/* Unmaps the text. */
void hk_long_text_end(const hk_format_t *text);

HK_C_END

#endif /* HK_REPORT_LONG_TEXT_H */
