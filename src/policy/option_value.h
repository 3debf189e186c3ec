/* policy/option_value.h - L2. The types of options: parses text from outside strictly, and writes values for people. */
#ifndef HK_POLICY_OPTION_VALUE_H
#define HK_POLICY_OPTION_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"
#include "base/units.h"

HK_C_BEGIN

/* The size of a text option with its zero byte: the longest path that the system takes. */
#define HK_OPTION_TEXT_BYTES (4 * HK_KIB)

/* `text` is in lower case. It is an array, because the dynamic linker has to write each pointer in a table before the
 * program starts. */
typedef struct {
  char text[16];
  uint64_t value;
} hk_option_word_t;

/* A type is one of some words, a whole number, either, or a text. */
typedef struct {
  const hk_option_word_t *words;
  unsigned word_count;
  bool is_number;
  bool has_suffix; /* the number is in bytes */
  bool is_text;
} hk_option_type_t;

/* The accepted numbers of a type. Its words are always accepted. */
typedef struct {
  uint64_t min;
  uint64_t max;
} hk_option_range_t;

/* Sets the words of a type, in its initializer. */
#define HK_OPTION_WORDS(list) .words = (list), .word_count = sizeof(list) / sizeof((list)[0])

/* The types of option.def that it does not declare itself. */
extern HK_HIDDEN const hk_option_type_t hk_option_type_BOOL;
extern HK_HIDDEN const hk_option_type_t hk_option_type_COUNT;
extern HK_HIDDEN const hk_option_type_t hk_option_type_SIZE;
extern HK_HIDDEN const hk_option_type_t hk_option_type_SIGNAL;
extern HK_HIDDEN const hk_option_type_t hk_option_type_PRICE;
extern HK_HIDDEN const hk_option_type_t hk_option_type_TEXT;

/* Parses `text`. Returns false, and changes nothing, when it is no value of the type or out of range. Not for text
 * options. */
bool hk_option_parse(const hk_option_type_t *type, hk_option_range_t range, const char *text, uint64_t *value);

/* Appends a value as the user would write it: a word, or a number with the largest unit that leaves it whole. For a
 * text option appends "none". */
void hk_option_append_value(hk_format_t *line, const hk_option_type_t *type, uint64_t value);

/* Appends the accepted values. */
void hk_option_append_expected(hk_format_t *line, const hk_option_type_t *type, hk_option_range_t range);

HK_C_END

#endif /* HK_POLICY_OPTION_VALUE_H */
