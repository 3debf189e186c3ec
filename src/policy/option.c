/* policy/option.c - L2. Reads the options from the environment: option.def expanded into a table, one strict parser for
 * each kind of type, and the lines that say what was not accepted. Neither allocates nor uses stdio, so malloc may call
 * it. */
#include "policy/option.h"

#include <assert.h>

#include "base/format.h"
#include "os/os.h"

#define VARIABLE_PREFIX "HAKMEM_"
/* Variables of the project's own programs: the command line tool, the tests. */
#define TOOL_PREFIX "HAKMEM_CLI_"
#define TEST_PREFIX "HAKMEM_TEST_"

/* Room for a line whose name and value are quoted up to QUOTE_MAX characters each, and all that is said about them. */
#define LINE_BYTES 512
#define QUOTE_MAX 64

/* ---- Types: numbers, or a list of words. ----------------------------------------------------------------------- */

typedef struct {
  const char *text;
  uint64_t value;
} word_t;

/* A type without words is a number or a text. */
typedef struct {
  const word_t *words;
  unsigned word_count;
  bool has_suffix;
  bool is_text;
} type_t;

#define WORDS(list) .words = (list), .word_count = sizeof(list) / sizeof((list)[0])

static const word_t words_BOOL[] = {{"0", 0},  {"1", 1},   {"off", 0},   {"on", 1},
                                    {"no", 0}, {"yes", 1}, {"false", 0}, {"true", 1}};
static const type_t type_BOOL = {WORDS(words_BOOL)};
static const type_t type_COUNT = {.has_suffix = false};
static const type_t type_SIZE = {.has_suffix = true};
static const type_t type_TEXT = {.is_text = true};

#define HK_WORD(choice, word) {#word, hk_##choice##_##word},
#define HK_CHOICE(name, words)                  \
  static const word_t words_##name[] = {words}; \
  static const type_t type_##name = {WORDS(words_##name)};
#include "policy/option.def"
#undef HK_WORD

/* ---- The options. ---------------------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  const type_t *type;
  uint64_t default_value;
  uint64_t min;
  uint64_t max;
  uint64_t *value;
  /* Of a text: where it is seen, and where a copy of it is kept. The program may change its environment. */
  const char **text;
  char *copy;
} option_t;

hk_option_t hk_option = {
#define HK_OPTION(name, type, default_value, min, max, help) .name = (default_value),
#define HK_TEXT_OPTION(name, help) .name = "",
#include "policy/option.def"
};

#define HK_TEXT_OPTION(name, help) static char copy_of_##name[HK_OPTION_TEXT_BYTES];
#include "policy/option.def"

static const option_t options[] = {
#define HK_OPTION(name, type, default_value, min, max, help) \
  {#name, &type_##type, (default_value), (min), (max), &hk_option.name, NULL, NULL},
#define HK_TEXT_OPTION(name, help) {#name, &type_TEXT, 0, 0, 0, NULL, &hk_option.name, copy_of_##name},
#include "policy/option.def"
};

enum { option_count = sizeof(options) / sizeof(options[0]) };
static_assert(option_count <= 64, "the options that were seen are one 64-bit mask");

#define HK_OPTION(name, type, default_value, min, max, help) \
  static_assert((default_value) >= (min) && ((default_value) <= (max) || (max) == 0), "a default is in its range");
#include "policy/option.def"

/* ---- Text. ----------------------------------------------------------------------------------------------------- */

static char to_lower(char character) {
  return character >= 'A' && character <= 'Z' ? (char)(character - 'A' + 'a') : character;
}

static char to_upper(char character) {
  return character >= 'a' && character <= 'z' ? (char)(character - 'a' + 'A') : character;
}

/* `lower` holds no capitals. */
static bool equals_ignoring_case(const char *text, const char *lower) {
  for (; *text != '\0' && to_lower(*text) == *lower; text++) lower++;
  return *text == *lower;
}

/* What follows `prefix` in `text`, or NULL. */
static const char *after_prefix(const char *text, const char *prefix) {
  while (*prefix != '\0') {
    if (*text++ != *prefix++) return NULL;
  }
  return text;
}

/* ---- Values. --------------------------------------------------------------------------------------------------- */

static bool parse_word(const type_t *type, const char *text, uint64_t *value) {
  for (unsigned i = 0; i < type->word_count; i++) {
    if (!equals_ignoring_case(text, type->words[i].text)) continue;
    *value = type->words[i].value;
    return true;
  }
  return false;
}

static const char size_units[] = "kmgt";

/* "", "b", or a unit alone or with "b" or "ib" after it. False for anything else. */
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

static bool parse_number(const type_t *type, const char *text, uint64_t *value) {
  uint64_t number = 0;
  const char *rest = text;
  for (; *rest >= '0' && *rest <= '9'; rest++) {
    if (__builtin_mul_overflow(number, 10, &number)) return false;
    if (__builtin_add_overflow(number, (unsigned)(*rest - '0'), &number)) return false;
  }
  if (rest == text) return false;
  unsigned shift = 0;
  if (type->has_suffix ? !parse_suffix(rest, &shift) : *rest != '\0') return false;
  return !__builtin_mul_overflow(number, (uint64_t)1 << shift, value);
}

static bool parse(const option_t *option, const char *text, uint64_t *value) {
  if (option->type->words != NULL) return parse_word(option->type, text, value);
  return parse_number(option->type, text, value) && *value >= option->min && *value <= option->max;
}

static size_t length_of(const char *text) {
  size_t length = 0;
  while (text[length] != '\0') length++;
  return length;
}

/* False, and nothing has changed, when the value is not accepted. */
static bool set(const option_t *option, const char *text) {
  if (!option->type->is_text) {
    uint64_t parsed;
    if (!parse(option, text, &parsed)) return false;
    *option->value = parsed;
    return true;
  }
  size_t bytes = length_of(text) + 1;
  if (bytes > HK_OPTION_TEXT_BYTES) return false;
  __builtin_memcpy(option->copy, text, bytes);
  *option->text = option->copy;
  return true;
}

/* ---- Warnings. ------------------------------------------------------------------------------------------------- */

/* Text from outside: one line, no control characters, and no more of it than leaves room for what is said about it. */
static void append_quoted(hk_format_t *line, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (i == QUOTE_MAX) {
      hk_format_text(line, "...");
      return;
    }
    char character[2] = {text[i], '\0'};
    if (character[0] < ' ' || character[0] > '~') character[0] = '?';
    hk_format_text(line, character);
  }
}

/* A value as the user would write it: a word, or a number with the largest unit that leaves it whole. The one text that
 * is told is the default. */
static void append_value(hk_format_t *line, const type_t *type, uint64_t value) {
  if (type->is_text) {
    hk_format_text(line, "none");
    return;
  }
  for (unsigned i = 0; i < type->word_count; i++) {
    if (type->words[i].value != value) continue;
    hk_format_text(line, type->words[i].text);
    return;
  }
  unsigned unit = 0;
  while (type->has_suffix && value != 0 && value % 1024 == 0 && size_units[unit] != '\0') {
    value /= 1024;
    unit++;
  }
  hk_format_decimal(line, value);
  if (unit > 0) hk_format_text(line, (const char[][2]){"K", "M", "G", "T"}[unit - 1]);
}

static void append_expected(hk_format_t *line, const option_t *option) {
  const type_t *type = option->type;
  if (type->is_text) {
    hk_format_print(line, "a path of less than %u characters", (uint64_t)HK_OPTION_TEXT_BYTES);
    return;
  }
  for (unsigned i = 0; i < type->word_count; i++) {
    if (i > 0) hk_format_text(line, i + 1 < type->word_count ? ", " : " or ");
    hk_format_text(line, type->words[i].text);
  }
  if (type->word_count > 0) return;
  hk_format_text(line, type->has_suffix ? "bytes, with K, M, G or T," : "a whole number");
  hk_format_text(line, " from ");
  append_value(line, type, option->min);
  hk_format_text(line, " to ");
  append_value(line, type, option->max);
}

static void begin_warning(hk_format_t *line, char *buffer, const char *variable, size_t length) {
  /* One byte is kept for the end of the line, whatever was cut off before it. */
  hk_format_init(line, buffer, LINE_BYTES - 1);
  hk_format_text(line, "hakmem: warning: ");
  append_quoted(line, variable, length);
}

static void end_warning(hk_format_t *line) {
  hk_format_text(line, " (see options.md)");
  line->text[line->length] = '\n';
  hk_os_write_stderr(line->text, line->length + 1);
}

static void warn_unknown(const char *variable, size_t length) {
  char buffer[LINE_BYTES];
  hk_format_t line;
  begin_warning(&line, buffer, variable, length);
  hk_format_text(&line, " is no option");
  end_warning(&line);
}

static void warn_refused(const option_t *option, const char *variable, size_t length, const char *value) {
  char buffer[LINE_BYTES];
  hk_format_t line;
  begin_warning(&line, buffer, variable, length);
  hk_format_text(&line, "=");
  append_quoted(&line, value, length_of(value));
  hk_format_text(&line, " is not accepted: expected ");
  append_expected(&line, option);
  hk_format_text(&line, "; keeping the default ");
  append_value(&line, option->type, option->default_value);
  end_warning(&line);
}

void hk_option_warn(const char *variable, const char *value, const char *complaint, const char *reason) {
  char buffer[LINE_BYTES];
  hk_format_t line;
  begin_warning(&line, buffer, variable, length_of(variable));
  hk_format_text(&line, "=");
  append_quoted(&line, value, length_of(value));
  hk_format_print(&line, " %s: %s", complaint, reason);
  end_warning(&line);
}

/* ---- The environment. ------------------------------------------------------------------------------------------ */

/* The option of a variable "HAKMEM_NAME" whose NAME has `length` characters; option_count when there is none. */
static unsigned find_option(const char *name, size_t length) {
  for (unsigned i = 0; i < option_count; i++) {
    const char *option_name = options[i].name;
    size_t at = 0;
    while (at < length && option_name[at] != '\0' && name[at] == to_upper(option_name[at])) at++;
    if (at == length && option_name[at] == '\0') return i;
  }
  return option_count;
}

static void load_variable(const char *variable, uint64_t *seen) {
  const char *name = after_prefix(variable, VARIABLE_PREFIX);
  if (name == NULL) return;
  if (after_prefix(variable, TOOL_PREFIX) != NULL || after_prefix(variable, TEST_PREFIX) != NULL) return;
  size_t length = 0;
  while (name[length] != '=' && name[length] != '\0') length++;
  if (name[length] == '\0') return; /* no variable at all: it has no value */

  size_t variable_length = (size_t)(name - variable) + length;
  unsigned index = find_option(name, length);
  if (index == option_count) {
    warn_unknown(variable, variable_length);
    return;
  }
  if ((*seen >> index & 1) != 0) return;
  *seen |= (uint64_t)1 << index;

  const option_t *option = &options[index];
  const char *value = name + length + 1;
  if (!set(option, value)) warn_refused(option, variable, variable_length, value);
}

void hk_option_load(void) {
  static bool is_loaded;
  if (is_loaded) return;
  const char *const *environment = hk_os_environment();
  if (environment == NULL) return;
  is_loaded = true;
  if (hk_os_is_secure_exec()) return;
  uint64_t seen = 0;
  for (; *environment != NULL; environment++) load_variable(*environment, &seen);
}
