/* policy/option_value: the input is a byte for the type, two numbers for its range, and a text. An accepted value
 * has to be in the range or a word, and, written anew, has to read the same. A refused one has to change nothing. */
#include "policy/option_value.h"

#include <string.h>

#include "fuzz.h"

static const hk_option_word_t words[] = {{"off", 0}, {"on", 3}, {"always", 7}};
static const hk_option_type_t choice = {HK_OPTION_WORDS(words)};

static const hk_option_type_t *const types[] = {&hk_option_type_BOOL,   &hk_option_type_COUNT, &hk_option_type_SIZE,
                                                &hk_option_type_SIGNAL, &hk_option_type_PRICE, &choice};

static bool is_word(const hk_option_type_t *type, uint64_t value) {
  for (unsigned i = 0; i < type->word_count; i++) {
    if (type->words[i].value == value) return true;
  }
  return false;
}

static void check_written(const hk_option_type_t *type, hk_option_range_t range, uint64_t value) {
  char buffer[64];
  hk_format_t line;
  hk_format_init(&line, buffer, sizeof buffer);
  hk_option_append_value(&line, type, value);
  FUZZ_CHECK(line.length > 0 && line.length + 1 < sizeof buffer);
  uint64_t again = ~value;
  FUZZ_CHECK(hk_option_parse(type, range, buffer, &again) && again == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char text[4096], expected[512];
  fuzz_input_t input = {data, size};
  const hk_option_type_t *type = types[fuzz_number(&input, 1) % (sizeof types / sizeof *types)];
  hk_option_range_t range;
  range.min = fuzz_number(&input, 8);
  range.max = fuzz_number(&input, 8);
  size_t length = input.left < sizeof text - 1 ? input.left : sizeof text - 1;
  memcpy(text, input.at, length);
  text[length] = '\0';

  const uint64_t untouched = UINT64_C(0x5bd1e995a5a5a5a5);
  uint64_t value = untouched;
  if (hk_option_parse(type, range, text, &value)) {
    FUZZ_CHECK(is_word(type, value) || (value >= range.min && value <= range.max));
    check_written(type, range, value);
  } else {
    FUZZ_CHECK(value == untouched);
  }
  hk_format_t line;
  hk_format_init(&line, expected, sizeof expected);
  hk_option_append_expected(&line, type, range);
  FUZZ_CHECK(line.length > 0 && line.length + 1 < sizeof expected);
  return 0;
}
