/* base/format.h - L0. Text into a fixed buffer, without allocation, locale or stdio: usable after malloc has failed. */
#ifndef HK_BASE_FORMAT_H
#define HK_BASE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* A text under construction. `text` always ends with a zero byte; characters that do not fit are left out. The caller
 * owns it; one thread at a time uses it. */
typedef struct hk_format {
  char *text;
  size_t capacity; /* with the zero byte; at least 1 */
  size_t length;   /* without it */
  size_t left_out; /* characters that did not fit */
  /* Gives the text a larger buffer with the same contents. Returns false when there is none. NULL: the buffer has a
   * fixed size. */
  bool (*grow)(struct hk_format *format);
} hk_format_t;

void hk_format_init(hk_format_t *format, char *buffer, size_t capacity);

/* Returns whether `bytes` more characters and the zero byte fit. Calls `grow` where the text has it. */
bool hk_format_has_room(hk_format_t *format, size_t bytes);

void hk_format_text(hk_format_t *format, const char *text);
/* Appends a name that the program chose, as printable text in one line: UTF-8 as it is, each other byte as \xNN, and a
 * backslash as two. So different names stay different. */
void hk_format_name(hk_format_t *format, const char *name);
void hk_format_decimal(hk_format_t *format, uint64_t value);
/* Appends the number as 0x1f, without leading zeros. */
void hk_format_hex(hk_format_t *format, uint64_t value);
/* Appends bytes for people: "0 B", "1023 B", "1.0 KiB", "12.3 MiB". One digit after the point, rounded down, up to
 * TiB. */
void hk_format_bytes(hk_format_t *format, uint64_t bytes);
/* Appends a number and its noun: "1 block", "2 blocks". */
void hk_format_count(hk_format_t *format, uint64_t count, const char *noun);
/* Appends spaces until the last line has `column` characters. */
void hk_format_pad(hk_format_t *format, size_t column);

/* Appends the pattern with its arguments: %s (text), %u (uint64_t in decimal), %p (uintptr_t in hex), %b (uint64_t as
 * hk_format_bytes prints it), %n (uint64_t as a number of bytes: "1 byte", "2000 bytes"), %%. Each argument must have
 * exactly that type. */
void hk_format_print(hk_format_t *format, const char *pattern, ...);

HK_C_END

#endif /* HK_BASE_FORMAT_H */
