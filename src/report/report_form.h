/* report/report_form.h - L9. The two forms of a report: lines for people, JSON for programs. */
#ifndef HK_REPORT_REPORT_FORM_H
#define HK_REPORT_REPORT_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/format.h"

typedef struct {
  const char *name; /* words; in JSON joined by underscores */
  const char *help;
  uint64_t value;
  bool is_bytes; /* for readers a number with a unit; programs get every number whole */
} hk_form_row_t;

/* Names are our own: nothing in them must be quoted. */
typedef struct {
  void (*begin)(hk_format_t *out, const char *section);
  void (*row)(hk_format_t *out, const hk_form_row_t *row);
  void (*text)(hk_format_t *out, const char *name, const char *text);
  void (*flag)(hk_format_t *out, const char *name, bool value);
  void (*unknown)(hk_format_t *out, const char *name); /* what cannot be told; lines leave it out */
  void (*begin_list)(hk_format_t *out, const char *name);
  void (*item)(hk_format_t *out, const char *text);
  void (*end_list)(hk_format_t *out);
  void (*end)(hk_format_t *out);
} hk_form_t;

extern HK_HIDDEN const hk_form_t hk_form_lines;
extern HK_HIDDEN const hk_form_t hk_form_json;

/* The text in quotes, whatever bytes it has: one that is not ASCII becomes a character of Latin-1. */
void hk_form_json_quote(hk_format_t *out, const char *text);

/* For what is no section: a comma, if one is due, and the name. */
void hk_form_json_key(hk_format_t *out, const char *name);
void hk_form_json_separate(hk_format_t *out);

/* What a JSON report begins with, and its end. */
void hk_form_json_begin(hk_format_t *out, uint64_t schema);
void hk_form_json_end(hk_format_t *out);

/* Whether a text is how a JSON report begins, of any version. */
bool hk_form_json_is_ours(const char *beginning);

#endif /* HK_REPORT_REPORT_FORM_H */
