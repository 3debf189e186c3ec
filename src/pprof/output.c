/* pprof/output.c - L7. See output.h. */
#include "pprof/output.h"

#include <string.h>

static bool put(hk_output_t *output, const void *bytes, size_t count) {
  hk_output_text_t *to = HK_CONTAINER_OF(output, hk_output_text_t, output);
  hk_format_t *text = to->text;
  if (!hk_format_has_room(text, count + to->kept_bytes)) return false;
  memcpy(text->text + text->length, bytes, count);
  text->length += count;
  text->text[text->length] = '\0';
  return true;
}

void hk_output_text_init(hk_output_text_t *to, hk_format_t *text, size_t kept_bytes) {
  *to = (hk_output_text_t){.output = {put}, .text = text, .kept_bytes = kept_bytes};
}
