/* policy/option.c - L2. Reads the options from the environment: expands option.def and old_option.def into tables, and
 * writes the lines about values that are not accepted. Neither allocates nor uses stdio, so malloc may call it. */
#include "policy/option.h"

#include <assert.h>

#include "base/text.h"
#include "os/os.h"
#include "policy/option_line.h"
#include "policy/price.h"

#define VARIABLE_PREFIX "HAKMEM_"
/* The project's own programs: the command line tool, the tests. */
#define TOOL_PREFIX "HAKMEM_CLI_"
#define TEST_PREFIX "HAKMEM_TEST_"

/* ---- The options. ---------------------------------------------------------------------------------------------- */

#define HK_WORD(choice, word) {#word, hk_##choice##_##word},
#define HK_CHOICE(name, words)                               \
  static const hk_option_word_t words_of_##name[] = {words}; \
  static const hk_option_type_t hk_option_type_##name = {HK_OPTION_WORDS(words_of_##name)};
#include "policy/option.def"
#undef HK_WORD

/* The name is an array, because the dynamic linker has to write each pointer in a table before the program starts. */
typedef struct {
  char name[20];
  const hk_option_type_t *type;
  hk_option_range_t range;
  uint64_t default_value;
  uint64_t *value;
  /* Of a text: the field that names it, and the storage of a copy. The program may change its environment. */
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

enum {
#define HK_OPTION(name, type, default_value, min, max, help) option_##name,
#define HK_TEXT_OPTION(name, help) option_##name,
#include "policy/option.def"
  option_count
};
static_assert(option_count <= 64, "the options that were seen are one 64-bit mask");

static const option_t options[option_count] = {
#define HK_OPTION(name, type, default_value, min, max, help) \
  {#name, &hk_option_type_##type, {(min), (max)}, (default_value), &hk_option.name, NULL, NULL},
#define HK_TEXT_OPTION(name, help) {#name, &hk_option_type_TEXT, {0, 0}, 0, NULL, &hk_option.name, copy_of_##name},
#include "policy/option.def"
};

#define HK_OPTION(id, type, default_value, min, max, help) \
  static_assert(sizeof #id <= sizeof options->name, "the name fits with its zero byte");
#define HK_TEXT_OPTION(id, help) HK_OPTION(id, TEXT, 0, 0, 0, help)
#include "policy/option.def"

#define HK_OPTION(name, type, default_value, min, max, help) \
  static_assert((default_value) >= (min) && ((default_value) <= (max) || (max) == 0), "a default is in its range");
#include "policy/option.def"

/* ---- Old names. ------------------------------------------------------------------------------------------------ */

typedef struct {
  const char *name;
  const char *reason;   /* why the option has no successor; NULL: it has one */
  unsigned option;      /* the successor */
  const char *words[2]; /* the successor's values for off and on */
} old_option_t;

static const old_option_t old_options[] = {
#define HK_OLD_SWITCH(name, option, off, on) {#name, NULL, option_##option, {#off, #on}},
#define HK_OLD_OPTION(name, reason) {#name, (reason), 0, {NULL, NULL}},
#include "policy/old_option.def"
};

enum { old_option_count = sizeof(old_options) / sizeof(old_options[0]) };

/* For a BOOL, which has words and no numbers. */
static const hk_option_range_t no_range = {0, 0};

/* ---- Text. ----------------------------------------------------------------------------------------------------- */

static char to_upper(char character) {
  return character >= 'a' && character <= 'z' ? (char)(character - 'a' + 'A') : character;
}

static size_t length_of(const char *text) {
  size_t length = 0;
  while (text[length] != '\0') length++;
  return length;
}

static size_t name_length(const char *variable) {
  size_t length = 0;
  while (variable[length] != '=' && variable[length] != '\0') length++;
  return length;
}

/* Requires a variable with a '='. */
static const char *value_of(const char *variable) { return variable + name_length(variable) + 1; }

/* Returns whether the first `length` characters of `name` are those of `lower`, in upper case. */
static bool is_name(const char *name, size_t length, const char *lower) {
  size_t at = 0;
  while (at < length && lower[at] != '\0' && name[at] == to_upper(lower[at])) at++;
  return at == length && lower[at] == '\0';
}

/* ---- Warnings. ------------------------------------------------------------------------------------------------- */

static void append_name(hk_option_line_t *line, const option_t *option) {
  hk_format_text(&line->format, VARIABLE_PREFIX);
  for (const char *next = option->name; *next != '\0'; next++) {
    char character[2] = {to_upper(*next), '\0'};
    hk_format_text(&line->format, character);
  }
}

/* Begins a line with the variable's name. */
static void begin_name(hk_option_line_t *line, const char *variable) {
  hk_option_line_begin(line, variable, name_length(variable));
}

/* Begins a line with the variable and its value. */
static void begin_setting(hk_option_line_t *line, const char *variable) {
  const char *value = value_of(variable);
  begin_name(line, variable);
  hk_format_text(&line->format, "=");
  hk_option_line_quote(line, value, length_of(value));
}

static void append_refusal(hk_option_line_t *line, const hk_option_type_t *type, hk_option_range_t range) {
  hk_format_text(&line->format, " is not accepted: expected ");
  hk_option_append_expected(&line->format, type, range);
}

static void warn_unknown(const char *variable) {
  hk_option_line_t line;
  begin_name(&line, variable);
  hk_format_text(&line.format, " is no option");
  hk_option_line_end(&line);
}

static void warn_refused(const option_t *option, const char *variable) {
  hk_option_line_t line;
  begin_setting(&line, variable);
  append_refusal(&line, option->type, option->range);
  hk_format_text(&line.format, "; keeping the default ");
  hk_option_append_value(&line.format, option->type, option->default_value);
  hk_option_line_end(&line);
}

static void warn_gone(const old_option_t *old, const char *variable) {
  hk_option_line_t line;
  begin_name(&line, variable);
  hk_format_print(&line.format, " no longer exists: %s", old->reason);
  hk_option_line_end(&line);
}

static void warn_old_refused(const old_option_t *old, const char *variable) {
  hk_option_line_t line;
  begin_setting(&line, variable);
  append_refusal(&line, &hk_option_type_BOOL, no_range);
  hk_format_text(&line.format, "; its name now is ");
  append_name(&line, &options[old->option]);
  hk_option_line_end(&line);
}

static void warn_old_overruled(const old_option_t *old, const char *variable) {
  hk_option_line_t line;
  begin_setting(&line, variable);
  hk_format_text(&line.format, " is not used: its name now is ");
  append_name(&line, &options[old->option]);
  hk_format_text(&line.format, ", which is set");
  hk_option_line_end(&line);
}

static void warn_old_taken(const old_option_t *old, const char *variable, const char *word) {
  hk_option_line_t line;
  begin_setting(&line, variable);
  hk_format_text(&line.format, " is taken as ");
  append_name(&line, &options[old->option]);
  hk_format_print(&line.format, "=%s, its name now", word);
  hk_option_line_end(&line);
}

void hk_option_warn(const char *variable, const char *value, const char *complaint, const char *reason) {
  hk_option_line_t line;
  hk_option_line_begin(&line, variable, length_of(variable));
  hk_format_text(&line.format, "=");
  hk_option_line_quote(&line, value, length_of(value));
  hk_format_print(&line.format, " %s: %s", complaint, reason);
  hk_option_line_end(&line);
}

void hk_option_warn_unused(const char *variable, uint64_t number, const char *reason) {
  char buffer[24]; /* a number has up to 20 digits */
  hk_format_t value;
  hk_format_init(&value, buffer, sizeof buffer);
  hk_format_decimal(&value, number);
  hk_option_warn(variable, buffer, "is not used", reason);
}

const char *hk_option_next_set(unsigned *index, hk_format_t *value) {
  for (; *index < option_count; (*index)++) {
    const option_t *option = &options[*index];
    bool is_default = option->type->is_text ? **option->text == '\0' : *option->value == option->default_value;
    if (is_default) continue;
    if (option->type->is_text) {
      hk_format_text(value, *option->text);
    } else {
      hk_option_append_value(value, option->type, *option->value);
    }
    return option->name;
  }
  return NULL;
}

/* ---- The environment. ------------------------------------------------------------------------------------------ */

/* What a pass over the environment has found. */
typedef struct {
  uint64_t seen;                     /* a bit for each option */
  const char *old[old_option_count]; /* the first variable of each old name, or NULL */
} found_t;

/* Sets the option from text. Returns false, and changes nothing, when the value is not accepted. */
static bool set(const option_t *option, const char *text) {
  if (!option->type->is_text) return hk_option_parse(option->type, option->range, text, option->value);
  size_t bytes = length_of(text) + 1;
  if (bytes > HK_OPTION_TEXT_BYTES) return false;
  __builtin_memcpy(option->copy, text, bytes);
  *option->text = option->copy;
  return true;
}

static bool is_seen(const found_t *found, unsigned option) { return (found->seen >> option & 1) != 0; }

static void load_option(unsigned index, const char *variable, found_t *found) {
  if (is_seen(found, index)) return;
  found->seen |= (uint64_t)1 << index;
  if (!set(&options[index], value_of(variable))) warn_refused(&options[index], variable);
}

static void load_variable(const char *variable, found_t *found) {
  const char *name = hk_text_after(variable, VARIABLE_PREFIX);
  if (name == NULL) return;
  if (hk_text_after(variable, TOOL_PREFIX) != NULL || hk_text_after(variable, TEST_PREFIX) != NULL) return;
  size_t length = name_length(name);
  if (name[length] == '\0') return; /* without a '=' it is no variable */

  for (unsigned i = 0; i < option_count; i++) {
    if (!is_name(name, length, options[i].name)) continue;
    load_option(i, variable, found);
    return;
  }
  for (unsigned i = 0; i < old_option_count; i++) {
    if (!is_name(name, length, old_options[i].name)) continue;
    if (found->old[i] == NULL) found->old[i] = variable;
    return;
  }
  warn_unknown(variable);
}

/* Handles an old name. Called after all options: an old name has no effect when its successor is set too. */
static void load_old(const old_option_t *old, const char *variable, const found_t *found) {
  if (old->reason != NULL) {
    warn_gone(old, variable);
    return;
  }
  uint64_t is_on;
  if (!hk_option_parse(&hk_option_type_BOOL, no_range, value_of(variable), &is_on)) {
    warn_old_refused(old, variable);
    return;
  }
  if (is_seen(found, old->option)) {
    warn_old_overruled(old, variable);
    return;
  }
  const char *word = old->words[is_on];
  if (set(&options[old->option], word)) warn_old_taken(old, variable, word);
}

static void load(const char *const *environment) {
  found_t found = {0};
  for (; *environment != NULL; environment++) load_variable(*environment, &found);
  for (unsigned i = 0; i < old_option_count; i++) {
    if (found.old[i] != NULL) load_old(&old_options[i], found.old[i], &found);
  }
}

void hk_option_load(void) {
  static bool is_loaded;
  if (is_loaded) return;
  const char *const *environment = hk_os_environment();
  if (environment == NULL) return;
  is_loaded = true;
  if (!hk_os_is_secure_exec()) load(environment);
}
