/* policy/option_value.c - L2. See option_value.h. */
#include "policy/option_value.h"

#include <stddef.h>

#include "base/text.h"
#include "policy/price.h"

/* ---- Types. ---------------------------------------------------------------------------------------------------- */

static const hk_option_word_t words_BOOL[] = {{"0", 0},  {"1", 1},   {"off", 0},   {"on", 1},
                                              {"no", 0}, {"yes", 1}, {"false", 0}, {"true", 1}};

/* The numbers are the same on x86-64 and arm64. */
static const hk_option_word_t words_SIGNAL[] = {{"none", 0},     {"hup", 1},    {"usr1", 10},
                                                {"usr2", 12},    {"sighup", 1}, {"sigusr1", 10},
                                                {"sigusr2", 12}, {"winch", 28}, {"sigwinch", 28}};

#define HK_PRICE_MODE(name, ns_per_mib_second) {#name, (ns_per_mib_second)},
static const hk_option_word_t words_PRICE[] = {HK_PRICE_MODES};
#undef HK_PRICE_MODE

const hk_option_type_t hk_option_type_BOOL = {HK_OPTION_WORDS(words_BOOL)};
const hk_option_type_t hk_option_type_COUNT = {.is_number = true};
const hk_option_type_t hk_option_type_SIZE = {.is_number = true, .has_suffix = true};
const hk_option_type_t hk_option_type_SIGNAL = {HK_OPTION_WORDS(words_SIGNAL), .is_number = true};
const hk_option_type_t hk_option_type_PRICE = {HK_OPTION_WORDS(words_PRICE), .is_number = true};
const hk_option_type_t hk_option_type_TEXT = {.is_text = true};

/* ---- From text. ------------------------------------------------------------------------------------------------ */

static char to_lower(char character) {
  return character >= 'A' && character <= 'Z' ? (char)(character - 'A' + 'a') : character;
}

/* Requires that `lower` has no capitals. */
static bool equals_ignoring_case(const char *text, const char *lower) {
  for (; *text != '\0' && to_lower(*text) == *lower; text++) lower++;
  return *text == *lower;
}

static bool parse_word(const hk_option_type_t *type, const char *text, uint64_t *value) {
  for (unsigned i = 0; i < type->word_count; i++) {
    if (!equals_ignoring_case(text, type->words[i].text)) continue;
    *value = type->words[i].value;
    return true;
  }
  return false;
}

/* Parses a BOOL's other words for a choice that has `on` and `off`. */
static bool parse_switch(const hk_option_type_t *type, const char *text, uint64_t *value) {
  uint64_t is_on;
  return parse_word(&hk_option_type_BOOL, text, &is_on) && parse_word(type, is_on ? "on" : "off", value);
}

static const char size_units[] = "kmgt";

/* Parses "", "b", or a unit alone or followed by "b" or "ib". Returns false for other text. */
static bool parse_suffix(const char *text, unsigned *shift) {
  *shift = 0;
  bool has_unit = false;
  for (unsigned i = 0; size_units[i] != '\0'; i++) {
    if (to_lower(*text) != size_units[i]) continue;
    *shift = 10 * (i + 1);
    has_unit = true;
  }
  if (has_unit) text++;
  return *text == '\0' || equals_ignoring_case(text, "b") || (has_unit && equals_ignoring_case(text, "ib"));
}

static bool parse_number(const hk_option_type_t *type, const char *text, uint64_t *value) {
  uint64_t number;
  const char *rest = hk_text_number(text, &number);
  if (rest == NULL) return false;
  unsigned shift = 0;
  if (type->has_suffix ? !parse_suffix(rest, &shift) : *rest != '\0') return false;
  return !__builtin_mul_overflow(number, (uint64_t)1 << shift, value);
}

bool hk_option_parse(const hk_option_type_t *type, hk_option_range_t range, const char *text, uint64_t *value) {
  if (parse_word(type, text, value) || parse_switch(type, text, value)) return true;
  uint64_t number;
  if (!type->is_number || !parse_number(type, text, &number)) return false;
  if (number < range.min || number > range.max) return false;
  *value = number;
  return true;
}

/* ---- To text. -------------------------------------------------------------------------------------------------- */

static void append_number(hk_format_t *line, const hk_option_type_t *type, uint64_t value) {
  unsigned unit = 0;
  while (type->has_suffix && value != 0 && value % 1024 == 0 && size_units[unit] != '\0') {
    value /= 1024;
    unit++;
  }
  hk_format_decimal(line, value);
  if (unit > 0) hk_format_text(line, (const char[][2]){"K", "M", "G", "T"}[unit - 1]);
}

void hk_option_append_value(hk_format_t *line, const hk_option_type_t *type, uint64_t value) {
  if (type->is_text) {
    hk_format_text(line, "none");
    return;
  }
  for (unsigned i = 0; i < type->word_count; i++) {
    if (type->words[i].value != value) continue;
    hk_format_text(line, type->words[i].text);
    return;
  }
  append_number(line, type, value);
}

/* Returns the separator before word `i`. A number may follow the words. */
static const char *separator(const hk_option_type_t *type, unsigned i) {
  if (i == 0) return "";
  return i + 1 < type->word_count || type->is_number ? ", " : " or ";
}

void hk_option_append_expected(hk_format_t *line, const hk_option_type_t *type, hk_option_range_t range) {
  if (type->is_text) {
    hk_format_print(line, "a path of less than %u characters", (uint64_t)HK_OPTION_TEXT_BYTES);
    return;
  }
  for (unsigned i = 0; i < type->word_count; i++) {
    hk_format_text(line, separator(type, i));
    hk_format_text(line, type->words[i].text);
  }
  if (!type->is_number) return;
  if (type->word_count > 0) hk_format_text(line, " or ");
  hk_format_text(line, type->has_suffix ? "bytes, with K, M, G or T," : "a whole number");
  hk_format_text(line, " from ");
  append_number(line, type, range.min);
  hk_format_text(line, " to ");
  append_number(line, type, range.max);
}
