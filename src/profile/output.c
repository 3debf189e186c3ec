/* profile/output.c - L5. See output.h. */
#include "profile/output.h"

#include <string.h>

static bool put(hk_output_t *output, const void *bytes, size_t count) {
  hk_output_buffer_t *buffer = HK_CONTAINER_OF(output, hk_output_buffer_t, output);
  if (count > buffer->capacity - buffer->length) return false;
  memcpy(buffer->bytes + buffer->length, bytes, count);
  buffer->length += count;
  return true;
}

void hk_output_buffer_init(hk_output_buffer_t *buffer, void *bytes, size_t capacity) {
  buffer->output.put = put;
  buffer->bytes = bytes;
  buffer->capacity = capacity;
  buffer->length = 0;
}
