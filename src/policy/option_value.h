/* policy/option_value.h - L2. What the value of an option may be: text from outside as a number, strictly; and how it is
 * written for people. */
#ifndef HK_POLICY_OPTION_VALUE_H
#define HK_POLICY_OPTION_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"
#include "base/units.h"

HK_C_BEGIN

/* Of a text, with the zero byte: the longest path that the system takes. */
#define HK_OPTION_TEXT_BYTES (4 * HK_KIB)

/* In lower case. */
typedef struct {
  const char *text;
  uint64_t value;
} hk_option_word_t;

/* One of some words, a whole number, either, or a text. */
typedef struct {
  const hk_option_word_t *words;
  unsigned word_count;
  bool is_number;
  bool has_suffix; /* the number is one of bytes */
  bool is_text;
} hk_option_type_t;

/* Of a type's numbers. Its words are always accepted. */
typedef struct {
  uint64_t min;
  uint64_t max;
} hk_option_range_t;

/* The words of a type, in its initializer. */
#define HK_OPTION_WORDS(list) .words = (list), .word_count = sizeof(list) / sizeof((list)[0])

/* The types of option.def that are not made there. */
extern HK_HIDDEN const hk_option_type_t hk_option_type_BOOL;
extern HK_HIDDEN const hk_option_type_t hk_option_type_COUNT;
extern HK_HIDDEN const hk_option_type_t hk_option_type_SIZE;
extern HK_HIDDEN const hk_option_type_t hk_option_type_SIGNAL;
extern HK_HIDDEN const hk_option_type_t hk_option_type_PRICE;
extern HK_HIDDEN const hk_option_type_t hk_option_type_TEXT;

/* False, and nothing is changed, when the text is none of the type's values, or out of range. Not for texts. */
bool hk_option_parse(const hk_option_type_t *type, hk_option_range_t range, const char *text, uint64_t *value);

/* A value as the user would write it: a word, or a number with the largest unit that leaves it whole. The one text that
 * is told is the default. */
void hk_option_append_value(hk_format_t *line, const hk_option_type_t *type, uint64_t value);

/* What is accepted. */
void hk_option_append_expected(hk_format_t *line, const hk_option_type_t *type, hk_option_range_t range);

HK_C_END

#endif /* HK_POLICY_OPTION_VALUE_H */
