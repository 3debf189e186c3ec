/* base/format.c - L0. See format.h. Everything goes through append_char, which alone checks the capacity. */
#include "base/format.h"

#include <stdarg.h>

#include "base/text.h"

/* Digits of the longest number: 2^64 - 1 has 20 in decimal and 16 in hexadecimal. */
#define MAX_DIGITS 20

void hk_format_init(hk_format_t *format, char *buffer, size_t capacity) {
  format->text = buffer;
  format->capacity = capacity;
  format->length = 0;
  format->left_out = 0;
  format->grow = NULL;
  buffer[0] = '\0';
}

bool hk_format_has_room(hk_format_t *format, size_t bytes) {
  while (format->capacity - format->length <= bytes) {
    if (format->grow == NULL || !format->grow(format)) return false;
  }
  return true;
}

static void append_char(hk_format_t *format, char character) {
  if (!hk_format_has_room(format, 1)) {
    format->left_out++;
    return;
  }
  format->text[format->length++] = character;
  format->text[format->length] = '\0';
}

void hk_format_text(hk_format_t *format, const char *text) {
  while (*text != '\0') append_char(format, *text++);
}

void hk_format_name(hk_format_t *format, const char *name) {
  while (*name != '\0') {
    unsigned length = hk_text_printable_bytes(name);
    if (length == 0) {
      const char digits[] = "0123456789abcdef";
      const char coded[] = {'\\', 'x', digits[(unsigned char)*name >> 4], digits[*name & 15], '\0'};
      hk_format_text(format, coded);
      name++;
      continue;
    }
    if (*name == '\\') append_char(format, '\\');
    for (; length > 0; length--) append_char(format, *name++);
  }
}

static void append_number(hk_format_t *format, uint64_t value, unsigned base) {
  char digits[MAX_DIGITS];
  unsigned count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  while (count > 0) append_char(format, digits[--count]);
}

void hk_format_decimal(hk_format_t *format, uint64_t value) { append_number(format, value, 10); }

void hk_format_hex(hk_format_t *format, uint64_t value) {
  hk_format_text(format, "0x");
  append_number(format, value, 16);
}

void hk_format_bytes(hk_format_t *format, uint64_t bytes) {
  static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  enum { last_unit = sizeof(units) / sizeof(units[0]) - 1 };
  unsigned unit = 0;
  while (unit < last_unit && (bytes >> (10 * unit)) >= 1024) unit++;
  unsigned shift = 10 * unit;
  hk_format_decimal(format, bytes >> shift);
  if (unit > 0) {
    uint64_t rest = bytes & (((uint64_t)1 << shift) - 1);
    append_char(format, '.');
    hk_format_decimal(format, rest * 10 >> shift);
  }
  hk_format_text(format, units[unit]);
}

void hk_format_count(hk_format_t *format, uint64_t count, const char *noun) {
  hk_format_decimal(format, count);
  append_char(format, ' ');
  hk_format_text(format, noun);
  if (count != 1) append_char(format, 's');
}

void hk_format_pad(hk_format_t *format, size_t column) {
  size_t line_start = format->length;
  while (line_start > 0 && format->text[line_start - 1] != '\n') line_start--;
  for (size_t written = format->length - line_start; written < column; written++) {
    if (format->left_out > 0) return; /* bounds the steps for a wrong column */
    append_char(format, ' ');
  }
}

void hk_format_print(hk_format_t *format, const char *pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  for (; *pattern != '\0'; pattern++) {
    if (*pattern != '%' || pattern[1] == '\0') {
      append_char(format, *pattern);
      continue;
    }
    switch (*++pattern) {
      case 's':
        hk_format_text(format, va_arg(arguments, const char *));
        break;
      case 'u':
        hk_format_decimal(format, va_arg(arguments, uint64_t));
        break;
      case 'p':
        hk_format_hex(format, va_arg(arguments, uintptr_t));
        break;
      case 'n':
        hk_format_count(format, va_arg(arguments, uint64_t), "byte");
        break;
      case 'b':
        hk_format_bytes(format, va_arg(arguments, uint64_t));
        break;
      default:
        append_char(format, *pattern);
        break;
    }
  }
  va_end(arguments);
}
