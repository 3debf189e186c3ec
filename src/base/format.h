/* base/format.h - L0. Text into a fixed buffer, without allocation, locale or stdio: usable where malloc failed. */
#ifndef HK_BASE_FORMAT_H
#define HK_BASE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* `text` always ends with a zero byte; what does not fit is cut off. The caller's, one thread's. */
typedef struct hk_format {
  char *text;
  size_t capacity;   /* with the zero byte; at least 1 */
  size_t length;     /* without it */
  bool is_truncated; /* something did not fit */
  /* Gives the text a larger buffer with the same contents. False: there is none. NULL: the buffer is all there is. */
  bool (*grow)(struct hk_format *format);
} hk_format_t;

void hk_format_init(hk_format_t *format, char *buffer, size_t capacity);

/* Whether `bytes` more fit, and the zero byte. A text that can grow does. */
bool hk_format_has_room(hk_format_t *format, size_t bytes);

void hk_format_text(hk_format_t *format, const char *text);
void hk_format_decimal(hk_format_t *format, uint64_t value);
/* As 0x1f, no leading zeros. */
void hk_format_hex(hk_format_t *format, uint64_t value);
/* Bytes for a reader: "0 B", "1023 B", "1.0 KiB", "12.3 MiB": one digit after the point, rounded down, up to TiB. */
void hk_format_bytes(hk_format_t *format, uint64_t bytes);
/* Spaces until `column` characters stand in the line that was begun last. */
void hk_format_pad(hk_format_t *format, size_t column);

/* %s (text), %u (uint64_t in decimal), %p (uintptr_t in hex), %b (uint64_t as bytes for a reader), %%. Each argument
 * must have exactly that type. */
void hk_format_print(hk_format_t *format, const char *pattern, ...);

HK_C_END

#endif /* HK_BASE_FORMAT_H */
