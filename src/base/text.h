/* base/text.h - L0. Parses words and numbers at the beginning of a text, as the kernel, users and the command line tool
 * write them. */
#ifndef HK_BASE_TEXT_H
#define HK_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns the rest of the text behind `word`; NULL where the text does not begin with it. */
const char *hk_text_after(const char *text, const char *word);

/* Returns the length of the character at the beginning of the text, in bytes of UTF-8; 0 where there is none, or one
 * that controls a terminal. */
unsigned hk_text_printable_bytes(const char *text);

/* The room for an escaped byte, with the final zero. */
#define HK_TEXT_ESCAPE_BYTES 7

/* Writes a byte that begins no printable character as JSON has it: \u00NN, or from 0x80 on \udcNN, as Python decodes
 * names of files. */
void hk_text_escape(char escape[HK_TEXT_ESCAPE_BYTES], unsigned char byte);

/* Returns whether the text ends with `end`. */
bool hk_text_ends(const char *text, const char *end);

/* Returns whether the text begins with a list of words, separated by commas, that has `word`. */
bool hk_text_lists(const char *text, const char *word);

/* Reads the decimal number at the beginning of the text. Returns the rest of the text; NULL, with `*number` unchanged,
 * when there is no number. A number that is too large becomes UINT64_MAX. */
const char *hk_text_number(const char *text, uint64_t *number);

/* Reads a hexadecimal number without 0x, as hk_text_number. A number that is too large keeps its lowest digits. */
const char *hk_text_hex(const char *text, uint64_t *number);

HK_C_END

#endif /* HK_BASE_TEXT_H */
