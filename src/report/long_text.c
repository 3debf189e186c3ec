/* report/long_text.c - L9. See long_text.h. */
#include "report/long_text.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "os/os.h"

/* Chosen: the least growth of a text. */
#define LEAST_STEP_BYTES (64 * HK_KIB)

static bool move(hk_format_t *text, size_t bytes) {
  char *buffer = hk_os_reserve(bytes, hk_os_page_size());
  if (buffer == NULL) return false;
  __builtin_memcpy(buffer, text->text, text->length + 1);
  (void)hk_os_unmap(text->text, text->capacity);
  text->text = buffer;
  text->capacity = bytes;
  return true;
}

static bool resize(hk_format_t *text, size_t bytes) {
  if (!hk_os_resize(text->text, text->capacity, bytes)) return move(text, bytes);
  text->capacity = bytes;
  return true;
}

/* Doubles the room; tries smaller steps where the system refuses. */
static bool grow(hk_format_t *text) {
  for (size_t step = text->capacity; step >= LEAST_STEP_BYTES; step /= 2) {
    size_t bytes = hk_smaller(hk_align_up(text->capacity + step, hk_os_page_size()), HK_LONG_TEXT_BYTES);
    if (bytes <= text->capacity) return false;
    if (resize(text, bytes)) return true;
  }
  return false;
}

bool hk_long_text_begin(hk_format_t *text, size_t least_bytes) {
  size_t bytes = hk_align_up(least_bytes, hk_os_page_size());
  char *buffer = hk_os_reserve(bytes, hk_os_page_size());
  if (buffer == NULL) return false;
  hk_format_init(text, buffer, bytes);
  text->grow = grow;
  return true;
}

void hk_long_text_end(const hk_format_t *text) { (void)hk_os_unmap(text->text, text->capacity); }
