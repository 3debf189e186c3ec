/* report/long_text.h - L9. Room for a text that may become long, in memory of its own: for who may not allocate. */
#ifndef HK_REPORT_LONG_TEXT_H
#define HK_REPORT_LONG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/format.h"
#include "base/units.h"

HK_C_BEGIN

/* The longest text: some 10,000 heaps and 20,000 superslabs in a report, and all sites that there can be in a
 * profile. */
#define HK_LONG_TEXT_BYTES (64 * HK_MIB)

/* Begins an empty text with room for `least_bytes`, which grows up to HK_LONG_TEXT_BYTES, or to what the system has:
 * its memory may be resident from the start, where the program locks it. False when the system refuses
 * `least_bytes`. */
bool hk_long_text_begin(hk_format_t *text, size_t least_bytes);

void hk_long_text_end(const hk_format_t *text);

HK_C_END

#endif /* HK_REPORT_LONG_TEXT_H */
