/* pprof/proto.c - L7. See proto.h. */
#include "pprof/proto.h"

#include <string.h>

#include "base/text.h"

/* The lowest bits of a field's key: the encoding of its value. */
enum { wire_number = 0, wire_bytes = 2, wire_shift = 3 };

static size_t encode(unsigned char *bytes, uint64_t value) {
  size_t length = 0;
  for (; value >= 0x80; value >>= 7) bytes[length++] = (unsigned char)(value | 0x80);
  bytes[length++] = (unsigned char)value;
  return length;
}

static void append(hk_proto_t *message, const void *bytes, size_t count) {
  if (count > sizeof(message->bytes) - message->length) {
    message->failed = true;
    return;
  }
  memcpy(message->bytes + message->length, bytes, count);
  message->length += count;
}

void hk_proto_begin(hk_proto_t *message) {
  message->length = 0;
  message->failed = false;
}

void hk_proto_element(hk_proto_t *message, uint64_t value) {
  unsigned char bytes[HK_PROTO_NUMBER_BYTES];
  append(message, bytes, encode(bytes, value));
}

static uint64_t key(unsigned field, unsigned wire) { return (uint64_t)field << wire_shift | wire; }

void hk_proto_number(hk_proto_t *message, unsigned field, uint64_t value) {
  if (value == 0) return;
  hk_proto_element(message, key(field, wire_number));
  hk_proto_element(message, value);
}

void hk_proto_nested(hk_proto_t *message, unsigned field, const hk_proto_t *nested) {
  hk_proto_element(message, key(field, wire_bytes));
  hk_proto_element(message, nested->length);
  append(message, nested->bytes, nested->length);
  message->failed |= nested->failed;
}

static bool put_head(hk_output_t *output, unsigned field, size_t length) {
  unsigned char head[2 * HK_PROTO_NUMBER_BYTES];
  size_t head_bytes = encode(head, key(field, wire_bytes));
  head_bytes += encode(head + head_bytes, length);
  return output->put(output, head, head_bytes);
}

bool hk_proto_put_text(hk_output_t *output, unsigned field, const char *text, size_t length) {
  return put_head(output, field, length) && (length == 0 || output->put(output, text, length));
}

/* A character of a path, or a byte of none, as it is put. */
typedef struct {
  char text[HK_TEXT_ESCAPE_BYTES];
  unsigned length;
  unsigned path_bytes; /* that it stands for */
} piece_t;

static piece_t first_piece(const char *path) {
  unsigned char byte = (unsigned char)*path;
  unsigned printable = hk_text_printable_bytes(path);
  piece_t piece = {.length = printable > 0 ? printable : 1};
  piece.path_bytes = piece.length;
  if (byte >= 0x80 && printable == 0) {
    hk_text_escape(piece.text, byte);
    piece.length = HK_TEXT_ESCAPE_BYTES - 1;
  } else {
    memcpy(piece.text, path, piece.length);
  }
  return piece;
}

bool hk_proto_put_path(hk_output_t *output, unsigned field, const char *path) {
  size_t length = 0;
  piece_t piece;
  for (const char *rest = path; *rest != '\0'; rest += piece.path_bytes) {
    piece = first_piece(rest);
    length += piece.length;
  }
  if (length == strlen(path)) return hk_proto_put_text(output, field, path, length);
  bool is_put = put_head(output, field, length);
  for (const char *rest = path; is_put && *rest != '\0'; rest += piece.path_bytes) {
    piece = first_piece(rest);
    is_put = output->put(output, piece.text, piece.length);
  }
  return is_put;
}

bool hk_proto_put(hk_output_t *output, unsigned field, const hk_proto_t *message) {
  return !message->failed && hk_proto_put_text(output, field, (const char *)message->bytes, message->length);
}

bool hk_proto_put_number(hk_output_t *output, unsigned field, uint64_t value) {
  unsigned char bytes[2 * HK_PROTO_NUMBER_BYTES];
  size_t length = encode(bytes, key(field, wire_number));
  length += encode(bytes + length, value);
  return output->put(output, bytes, length);
}
