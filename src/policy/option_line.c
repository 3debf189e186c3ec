/* policy/option_line.c - L2. See option_line.h. */
#include "policy/option_line.h"

#include "os/os.h"

void hk_option_line_quote(hk_option_line_t *line, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (i == HK_OPTION_QUOTE_MAX) {
      hk_format_text(&line->format, "...");
      return;
    }
    char character[2] = {text[i], '\0'};
    if (character[0] < ' ' || character[0] > '~') character[0] = '?';
    hk_format_text(&line->format, character);
  }
}

void hk_option_line_begin(hk_option_line_t *line, const char *variable, size_t length) {
  /* One byte is kept for the newline, however long the line gets. */
  hk_format_init(&line->format, line->buffer, HK_OPTION_LINE_BYTES - 1);
  hk_format_text(&line->format, "hakmem: warning: ");
  hk_option_line_quote(line, variable, length);
}

void hk_option_line_end(hk_option_line_t *line) {
  hk_format_text(&line->format, " (see: hakmem help options)");
  line->buffer[line->format.length] = '\n';
  hk_os_write_stderr(line->buffer, line->format.length + 1);
}
