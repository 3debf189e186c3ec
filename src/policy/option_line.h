/* policy/option_line.h - L2. One warning line about the environment, on stderr. Text from outside is cut to a length,
 * and its control characters are replaced. */
#ifndef HK_POLICY_OPTION_LINE_H
#define HK_POLICY_OPTION_LINE_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* The most characters of a quoted text that the line shows. */
#define HK_OPTION_QUOTE_MAX 64

/* Room for a quoted name, a quoted value and the rest of the line. */
#define HK_OPTION_LINE_BYTES 512

typedef struct {
  hk_format_t format; /* the caller appends here */
  char buffer[HK_OPTION_LINE_BYTES];
} hk_option_line_t;

/* Begins the line with "hakmem: warning: " and the `length` characters of the variable's name. */
void hk_option_line_begin(hk_option_line_t *line, const char *variable, size_t length);

/* Appends `length` characters of `text`, at most HK_OPTION_QUOTE_MAX of them. Those that are not printable ASCII become
 * '?'. */
void hk_option_line_quote(hk_option_line_t *line, const char *text, size_t length);

/* Ends the line with the name of the page that explains it, and writes it. */
void hk_option_line_end(hk_option_line_t *line);

HK_C_END

#endif /* HK_POLICY_OPTION_LINE_H */
