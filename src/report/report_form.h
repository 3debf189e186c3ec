/* report/report_form.h - L9. The two forms of a report: lines of text for people, JSON for programs. */
#ifndef HK_REPORT_REPORT_FORM_H
#define HK_REPORT_REPORT_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/format.h"

typedef struct {
  const char *name; /* words; JSON joins them by underscores */
  const char *help;
  uint64_t value;
  bool is_bytes; /* text prints it with a unit; JSON prints every number whole */
} hk_form_row_t;

/* The functions that write one form. Names come from the library: they need no quoting. */
typedef struct {
  void (*begin)(hk_format_t *out, const char *section);
  void (*row)(hk_format_t *out, const hk_form_row_t *row);
  void (*text)(hk_format_t *out, const char *name, const char *text);
  void (*flag)(hk_format_t *out, const char *name, bool value);
  void (*unknown)(hk_format_t *out, const char *name); /* an unknown value; text leaves it out */
  void (*begin_list)(hk_format_t *out, const char *name);
  void (*item)(hk_format_t *out, const char *text);
  void (*end_list)(hk_format_t *out);
  void (*end)(hk_format_t *out);
} hk_form_t;

extern HK_HIDDEN const hk_form_t hk_form_lines;
extern HK_HIDDEN const hk_form_t hk_form_json;

/* Appends the text in quotes. UTF-8 stays as it is, and each other byte becomes the character of its number. */
void hk_form_json_quote(hk_format_t *out, const char *text);

/* For elements outside sections: append a comma where one is due, and the key. */
void hk_form_json_key(hk_format_t *out, const char *name);
void hk_form_json_separate(hk_format_t *out);

/* Append the beginning of a JSON report and its end. */
void hk_form_json_begin(hk_format_t *out, uint64_t schema);
void hk_form_json_end(hk_format_t *out);

/* Returns whether a file with this beginning is a JSON report of the library, of any version. */
bool hk_form_json_is_ours(const char *beginning);

#endif /* HK_REPORT_REPORT_FORM_H */
