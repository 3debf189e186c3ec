/* policy/option_line.h - L2. A warning about the environment: one line on stderr, which holds what came from outside cut
 * to a length and without control characters. */
#ifndef HK_POLICY_OPTION_LINE_H
#define HK_POLICY_OPTION_LINE_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* Of what is quoted, so many characters are shown. */
#define HK_OPTION_QUOTE_MAX 64

/* Room for a name and a value that are quoted, and all that is said about them. */
#define HK_OPTION_LINE_BYTES 512

typedef struct {
  hk_format_t format; /* what is said is appended here */
  char buffer[HK_OPTION_LINE_BYTES];
} hk_option_line_t;

/* "hakmem: warning: " and the variable's name, which is so long. */
void hk_option_line_begin(hk_option_line_t *line, const char *variable, size_t length);

void hk_option_line_quote(hk_option_line_t *line, const char *text, size_t length);

/* Writes it, with where to read more. */
void hk_option_line_end(hk_option_line_t *line);

HK_C_END

#endif /* HK_POLICY_OPTION_LINE_H */
