/* policy/option, old_option, option_line, output_path: the input is the environment, one variable a line. An
 * accepted value, written anew, has to read the same. A refused one has to keep the default. Each warning has to be
 * one line of printable characters. */
#define hk_option fuzzed_option
#define hk_option_load fuzzed_option_load
#define hk_option_warn fuzzed_option_warn
#define hk_option_warn_unused fuzzed_option_warn_unused
#define hk_option_next_set fuzzed_option_next_set
/* A process reads its environment once. This file includes the reader's, so that each input can be read. */
#include "policy/option.c"

#include <string.h>

#include "fake_os.h"
#include "fuzz.h"
#include "policy/output_path.h"

#define VARIABLES_MAX 64
#define VARIABLE_BYTES 256

static char text[1 << 16];
static const char *environment[VARIABLES_MAX + 1];

static void set_defaults(void) {
  for (unsigned i = 0; i < option_count; i++) {
    if (options[i].type->is_text) {
      *options[i].text = "";
    } else {
      *options[i].value = options[i].default_value;
    }
  }
}

/* Splits the input's lines into variables. */
static void split(const uint8_t *data, size_t size) {
  unsigned count = 0;
  size_t length = size < sizeof text - 1 ? size : sizeof text - 1;
  memcpy(text, data, length);
  text[length] = '\0';
  char *next = text;
  while (next < text + length && count < VARIABLES_MAX) {
    environment[count++] = next;
    char *end = memchr(next, '\n', (size_t)(text + length - next));
    if (end == NULL) break;
    *end = '\0';
    next = end + 1;
  }
  environment[count] = NULL;
}

static void check_warnings(void) {
  const char *line = fake_os_stderr();
  uint64_t lines = 0;
  size_t length = 0;
  for (const char *at = line; *at != '\0'; at++) {
    if (length == 0) FUZZ_CHECK(strncmp(at, "hakmem: warning: ", strlen("hakmem: warning: ")) == 0);
    FUZZ_CHECK(*at == '\n' || (*at >= ' ' && *at <= '~'));
    FUZZ_CHECK(++length <= HK_OPTION_LINE_BYTES);
    if (*at != '\n') continue;
    lines++;
    length = 0;
  }
  FUZZ_CHECK(length == 0 || fake_os_stderr_writes() > lines); /* the log keeps a limited number of bytes */
}

static void check_value(const option_t *option) {
  uint64_t value = *option->value;
  bool is_known = option->type->is_number && value >= option->range.min && value <= option->range.max;
  for (unsigned i = 0; i < option->type->word_count; i++) is_known |= option->type->words[i].value == value;
  FUZZ_CHECK(is_known);
}

/* Returns the first variable with the option's name; without one, one with an old name. */
static const char *variable_of(const option_t *option) {
  for (unsigned i = 0; environment[i] != NULL; i++) {
    const char *name = hk_text_after(environment[i], VARIABLE_PREFIX);
    if (name == NULL) continue;
    size_t length = name_length(name);
    if (name[length] == '=' && is_name(name, length, option->name)) return environment[i];
  }
  return NULL;
}

static bool has_old_name(const option_t *option) {
  for (unsigned i = 0; i < old_option_count; i++) {
    if (old_options[i].reason == NULL && &options[old_options[i].option] == option) return true;
  }
  return false;
}

static bool is_default(const option_t *option) {
  return option->type->is_text ? **option->text == '\0' : *option->value == option->default_value;
}

/* Checks that plain digits read as their number. */
static void check_digits(const option_t *option, const char *value) {
  size_t digits = strspn(value, "0123456789");
  if (!option->type->is_number || digits == 0 || digits > 18 || value[digits] != '\0') return;
  uint64_t number = strtoull(value, NULL, 10), expected = option->default_value;
  for (unsigned i = 0; i < option->type->word_count; i++) {
    if (strcmp(option->type->words[i].text, value) == 0) return;
  }
  if (number >= option->range.min && number <= option->range.max) expected = number;
  FUZZ_CHECK(*option->value == expected);
}

static void check_option(const option_t *option) {
  const char *variable = variable_of(option);
  if (variable == NULL) {
    FUZZ_CHECK(is_default(option) || has_old_name(option));
  } else if (option->type->is_text) {
    const char *value = value_of(variable);
    FUZZ_CHECK(strcmp(*option->text, strlen(value) < HK_OPTION_TEXT_BYTES ? value : "") == 0);
  } else {
    check_digits(option, value_of(variable));
  }
  if (!option->type->is_text) check_value(option);
}

/* ---- Written and read again. */

static char written[option_count][VARIABLE_BYTES + HK_OPTION_TEXT_BYTES];

static void write_again(void) {
  unsigned count = 0, index = 0;
  char buffer[HK_OPTION_TEXT_BYTES];
  hk_format_t value;
  hk_format_init(&value, buffer, sizeof buffer);
  for (const char *name; (name = hk_option_next_set(&index, &value)) != NULL; index++) {
    hk_format_t line;
    hk_format_init(&line, written[count], sizeof written[count]);
    hk_format_text(&line, VARIABLE_PREFIX);
    for (const char *next = name; *next != '\0'; next++) {
      hk_format_text(&line, (char[2]){to_upper(*next), '\0'});
    }
    hk_format_print(&line, "=%s", buffer);
    environment[count] = written[count];
    count++;
    hk_format_init(&value, buffer, sizeof buffer);
  }
  environment[count] = NULL;
}

static void check_path(const char *pattern) {
  static char path[HK_OUTPUT_PATH_BYTES];
  hk_output_path_expand(path, pattern);
  size_t length = strlen(path);
  FUZZ_CHECK(length < sizeof path);
  if (strchr(pattern, '%') == NULL) FUZZ_CHECK(strcmp(path, pattern) == 0);
  if (!hk_output_path_has_process_id(pattern)) FUZZ_CHECK(length <= strlen(pattern));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static hk_option_t first;
  static char texts[option_count][HK_OPTION_TEXT_BYTES];
  fake_os_reset();
  set_defaults();
  split(data, size);
  load(environment);
  check_warnings();
  for (unsigned i = 0; i < option_count; i++) {
    check_option(&options[i]);
    if (!options[i].type->is_text) continue;
    check_path(*options[i].text);
    strcpy(texts[i], *options[i].text);
  }
  first = hk_option;

  write_again();
  set_defaults();
  fake_os_reset();
  load(environment);
  FUZZ_CHECK(fake_os_stderr_writes() == 0);
  for (unsigned i = 0; i < option_count; i++) {
    const option_t *option = &options[i];
    if (option->type->is_text) {
      FUZZ_CHECK(strcmp(*option->text, texts[i]) == 0);
    } else {
      size_t at = (size_t)((const char *)option->value - (const char *)&hk_option);
      FUZZ_CHECK(memcmp((const char *)&first + at, option->value, sizeof *option->value) == 0);
    }
  }
  return 0;
}
