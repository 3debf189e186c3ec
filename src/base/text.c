/* base/text.c - L0. See text.h. */
#include "base/text.h"

#include <stddef.h>
#include <string.h>

const char *hk_text_after(const char *text, const char *word) {
  size_t i = 0;
  for (; word[i] != '\0'; i++) {
    if (text[i] != word[i]) return NULL;
  }
  return text + i;
}

bool hk_text_ends(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool ends_word(char character) {
  return character == '\0' || character == ',' || character == ' ' || character == ':';
}

bool hk_text_lists(const char *text, const char *word) {
  for (; *text != '\0'; text++) {
    const char *rest = hk_text_after(text, word);
    if (rest != NULL && ends_word(*rest)) return true;
    while (!ends_word(*text)) text++;
    if (*text != ',') return false;
  }
  return false;
}

static bool is_digit(char character) { return character >= '0' && character <= '9'; }

const char *hk_text_number(const char *text, uint64_t *number) {
  if (!is_digit(*text)) return NULL;
  uint64_t sum = 0;
  bool is_too_large = false;
  for (; is_digit(*text); text++) {
    is_too_large |= __builtin_mul_overflow(sum, 10, &sum);
    is_too_large |= __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum);
  }
  *number = is_too_large ? UINT64_MAX : sum;
  return text;
}

const char *hk_text_hex(const char *text, uint64_t *number) {
  const char *start = text;
  uint64_t sum = 0;
  for (;; text++) {
    char lower = (char)(*text | 0x20);
    bool is_letter = lower >= 'a' && lower <= 'f';
    if (!is_letter && !is_digit(*text)) break;
    sum = sum << 4 | (uint64_t)(is_letter ? lower - 'a' + 10 : *text - '0');
  }
  if (text == start) return NULL;
  *number = sum;
  return text;
}

unsigned hk_text_printable_bytes(const char *text) {
  const unsigned char *byte = (const unsigned char *)text;
  if (*byte < 0x80) return *byte >= ' ' && *byte != 0x7F ? 1 : 0;
  unsigned length = *byte >= 0xF0 ? 4 : *byte >= 0xE0 ? 3 : 2;
  if (*byte < 0xC0 || *byte > 0xF4) return 0;
  uint32_t value = *byte & (0x7Fu >> length);
  for (unsigned i = 1; i < length; i++) {
    if ((byte[i] & 0xC0) != 0x80) return 0; /* the end of the text too */
    value = value << 6 | (byte[i] & 0x3F);
  }
  static const uint32_t least[] = {0, 0, 0xA0, 0x800, 0x10000}; /* below 0xA0 are controls */
  bool is_surrogate = value >= 0xD800 && value < 0xE000, is_line_end = value == 0x2028 || value == 0x2029;
  return value >= least[length] && value <= 0x10FFFF && !is_surrogate && !is_line_end ? length : 0;
}

void hk_text_escape(char escape[HK_TEXT_ESCAPE_BYTES], unsigned char byte) {
  static const char digits[] = "0123456789abcdef";
  const char text[HK_TEXT_ESCAPE_BYTES] = {
      '\\', 'u', byte < 0x80 ? '0' : 'd', byte < 0x80 ? '0' : 'c', digits[byte >> 4], digits[byte & 15], '\0'};
  for (unsigned i = 0; i < HK_TEXT_ESCAPE_BYTES; i++) escape[i] = text[i];
}
