/* api/long_text.c - L6. See long_text.h. */
#include "api/long_text.h"

#include "os/os.h"

bool hk_long_text_begin(hk_format_t *text, size_t least_bytes) {
  for (size_t bytes = HK_LONG_TEXT_BYTES; bytes >= least_bytes; bytes /= 2) {
    char *buffer = hk_os_reserve(bytes, hk_os_page_size());
    if (buffer == NULL) continue;
    hk_format_init(text, buffer, bytes);
    return true;
  }
  return false;
}

void hk_long_text_end(const hk_format_t *text) { (void)hk_os_unmap(text->text, text->capacity); }
