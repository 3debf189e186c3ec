/* base/text.h - L0. What a text begins with: words and numbers, as the kernel, the user and the tool write them. */
#ifndef HK_BASE_TEXT_H
#define HK_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* What follows `word` where the text begins with it; else NULL. */
const char *hk_text_after(const char *text, const char *word);

bool hk_text_ends(const char *text, const char *end);

/* Whether `word` is among the words, separated by commas, that the text begins with. */
bool hk_text_lists(const char *text, const char *word);

/* What follows the number that the text begins with; NULL, and no number, when there is none. One that is too large becomes
 * UINT64_MAX. */
const char *hk_text_number(const char *text, uint64_t *number);

/* The same in hexadecimal, without 0x before it; of one that is too large its lowest digits. */
const char *hk_text_hex(const char *text, uint64_t *number);

HK_C_END

#endif /* HK_BASE_TEXT_H */
