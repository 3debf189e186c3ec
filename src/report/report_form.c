/* report/report_form.c - L9. See report_form.h. */
#include "report/report_form.h"

#include "base/text.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

#define VALUE_COLUMN 24
#define HELP_COLUMN 38

/* ---- Lines of text. */

static void begin_lines(hk_format_t *out, const char *section) { hk_format_print(out, "hakmem: %s\n", section); }

static void line(hk_format_t *out, const hk_form_row_t *row) {
  hk_format_print(out, "  %s", row->name);
  hk_format_pad(out, VALUE_COLUMN);
  if (row->is_bytes) {
    hk_format_bytes(out, row->value);
  } else {
    hk_format_decimal(out, row->value);
  }
  hk_format_pad(out, HELP_COLUMN);
  hk_format_print(out, "%s\n", row->help);
}

static void text_line(hk_format_t *out, const char *name, const char *text) {
  hk_format_print(out, "  %s", name);
  hk_format_pad(out, VALUE_COLUMN);
  hk_format_print(out, "%s\n", text);
}

/* A fact of the process, outside the sections. */
static void flag_line(hk_format_t *out, const char *name, bool value) {
  hk_format_print(out, "hakmem: %s: %s\n", name, value ? "yes" : "no");
}

static void no_line(hk_format_t *out, const char *name) {
  (void)out;
  (void)name;
}

static void list_line(hk_format_t *out, const char *name) { hk_format_print(out, "  %s\n", name); }

static void item_line(hk_format_t *out, const char *text) { hk_format_print(out, "    %s\n", text); }

static void end_lines(hk_format_t *out) { (void)out; }

const hk_form_t hk_form_lines = {begin_lines, line,      text_line, flag_line, no_line,
                                 list_line,   item_line, end_lines, end_lines};

/* ---- JSON. */

/* Appends a comma, unless the next element is the first in its brackets. */
void hk_form_json_separate(hk_format_t *out) {
  char last = out->text[out->length - 1];
  if (last != '{' && last != '[') hk_format_text(out, ", ");
}

/* Appends a byte that is no character, or not printable, as the character of its number. Strict readers refuse a whole
 * text with a lone surrogate, which hk_text_escape would write. */
static void json_byte(hk_format_t *out, char byte) {
  static const char digits[] = "0123456789abcdef";
  char plain[] = {'\\', byte, '\0'};
  char coded[] = {'\\', 'u', '0', '0', digits[(unsigned char)byte >> 4], digits[byte & 15], '\0'};
  bool is_special = byte == '"' || byte == '\\';
  hk_format_text(out, byte < ' ' || byte > '~' ? coded : is_special ? plain : plain + 1);
}

static void json_character(hk_format_t *out, const char *text, unsigned length) {
  char character[5] = {0};
  for (unsigned i = 0; i < length; i++) character[i] = text[i];
  hk_format_text(out, character);
}

void hk_form_json_quote(hk_format_t *out, const char *text) {
  hk_format_text(out, "\"");
  while (*text != '\0') {
    unsigned length = hk_text_printable_bytes(text);
    if (length > 1) {
      json_character(out, text, length);
      text += length;
    } else {
      json_byte(out, *text++);
    }
  }
  hk_format_text(out, "\"");
}

void hk_form_json_key(hk_format_t *out, const char *name) {
  hk_form_json_separate(out);
  hk_format_text(out, "\"");
  for (; *name != '\0'; name++) {
    char character[2] = {*name == ' ' ? '_' : *name, '\0'};
    hk_format_text(out, character);
  }
  hk_format_text(out, "\": ");
}

static void begin_object(hk_format_t *out, const char *section) {
  hk_form_json_key(out, section);
  hk_format_text(out, "{");
}

static void member(hk_format_t *out, const hk_form_row_t *row) {
  hk_form_json_key(out, row->name);
  hk_format_decimal(out, row->value);
}

static void text_member(hk_format_t *out, const char *name, const char *text) {
  hk_form_json_key(out, name);
  hk_form_json_quote(out, text);
}

static void flag_member(hk_format_t *out, const char *name, bool value) {
  hk_form_json_key(out, name);
  hk_format_text(out, value ? "true" : "false");
}

static void unknown_member(hk_format_t *out, const char *name) {
  hk_form_json_key(out, name);
  hk_format_text(out, "null");
}

static void begin_array(hk_format_t *out, const char *name) {
  hk_form_json_key(out, name);
  hk_format_text(out, "[");
}

static void element(hk_format_t *out, const char *text) {
  hk_form_json_separate(out);
  hk_form_json_quote(out, text);
}

static void end_array(hk_format_t *out) { hk_format_text(out, "]"); }

static void end_object(hk_format_t *out) { hk_format_text(out, "}"); }

const hk_form_t hk_form_json = {begin_object, member,  text_member, flag_member, unknown_member,
                                begin_array,  element, end_array,   end_object};

void hk_form_json_begin(hk_format_t *out, uint64_t schema) {
  hk_format_text(out, "{");
  member(out, &(hk_form_row_t){.name = "schema", .value = schema});
  text_member(out, "version", hakmem_version());
  member(out, &(hk_form_row_t){.name = "pid", .value = hk_os_process_id()});
}

void hk_form_json_end(hk_format_t *out) { hk_format_text(out, "}\n"); }

bool hk_form_json_is_ours(const char *beginning) {
  uint64_t schema;
  const char *rest = hk_text_after(beginning, "{\"schema\": ");
  if (rest != NULL) rest = hk_text_number(rest, &schema);
  return rest != NULL && hk_text_after(rest, ", \"version\": \"") != NULL;
}
