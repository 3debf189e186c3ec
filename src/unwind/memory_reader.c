/* unwind/memory_reader.c - L6. See memory_reader.h. */
#include "unwind/memory_reader.h"

#include "base/arithmetic.h"
#include "base/bytes.h"
#include "os/copy_out.h"

void hk_memory_reader_init(hk_memory_reader_t *reader, uintptr_t start, uintptr_t end) {
  reader->pieces[0].count = reader->pieces[1].count = 0;
  reader->last = 0;
  reader->failed = false;
  hk_memory_reader_seek(reader, start, end);
}

void hk_memory_reader_seek(hk_memory_reader_t *reader, uintptr_t start, uintptr_t end) {
  reader->at = start;
  reader->end = end;
}

void hk_memory_reader_skip(hk_memory_reader_t *reader, uint64_t bytes) {
  if (reader->at > reader->end || bytes > reader->end - reader->at) {
    reader->failed = true;
    return;
  }
  reader->at += bytes;
}

/* Returns the piece's bytes at `at`; NULL unless it has `count` of them. */
static const unsigned char *look(const hk_memory_piece_t *piece, uintptr_t at, size_t count) {
  uintptr_t into = at - piece->start;
  if (at < piece->start || into > piece->count || piece->count - into < count) return NULL;
  return piece->bytes + into;
}

static const unsigned char *look_in_both(hk_memory_reader_t *reader, size_t count) {
  const unsigned char *found = look(&reader->pieces[reader->last], reader->at, count);
  if (HK_LIKELY(found != NULL)) return found;
  found = look(&reader->pieces[1 - reader->last], reader->at, count);
  if (found != NULL) reader->last = 1 - reader->last;
  return found;
}

/* Copies into the piece that is not the last read's. */
static void copy_piece(hk_memory_reader_t *reader) {
  reader->last = 1 - reader->last;
  hk_memory_piece_t *piece = &reader->pieces[reader->last];
  piece->start = reader->at;
  piece->count = hk_os_copy_out(piece->bytes, reader->at, hk_smaller(reader->end - reader->at, HK_MEMORY_PIECE_BYTES));
}

void hk_memory_reader_fetch(hk_memory_reader_t *reader, size_t bytes) {
  if (!reader->failed && look_in_both(reader, bytes) == NULL) copy_piece(reader);
}

/* Returns the next `count` bytes, copying a piece where needed. Returns NULL, and fails, when they cannot be read. */
static const unsigned char *take(hk_memory_reader_t *reader, unsigned count) {
  if (reader->failed || reader->at > reader->end || reader->end - reader->at < count) {
    reader->failed = true;
    return NULL;
  }
  const unsigned char *found = look_in_both(reader, count);
  if (found == NULL) {
    copy_piece(reader);
    found = look(&reader->pieces[reader->last], reader->at, count);
  }
  reader->failed = found == NULL;
  reader->at += count;
  return found;
}

uint64_t hk_memory_reader_number(hk_memory_reader_t *reader, unsigned bytes) {
  const unsigned char *found = take(reader, bytes);
  return found == NULL ? 0 : hk_bytes_get(found, bytes);
}

/* A number of 64 bits has up to ten bytes, and linkers pad it. A number above 16 bytes is damaged: it could run on
 * through all memory. */
#define LEB_BYTES_MAX 16

/* Reads seven bits a byte, the lowest first. Stores the number of bits read in `shift`, and the last byte in `last`. */
static uint64_t read_leb(hk_memory_reader_t *reader, unsigned *shift, unsigned *last) {
  uint64_t value = 0;
  *shift = 0;
  do {
    *last = (unsigned)hk_memory_reader_number(reader, 1);
    if (*shift < 64) value |= (uint64_t)(*last & 0x7f) << *shift;
    *shift += 7;
    reader->failed |= *shift > 7 * LEB_BYTES_MAX;
  } while ((*last & 0x80) != 0 && !reader->failed);
  return value;
}

uint64_t hk_memory_reader_uleb(hk_memory_reader_t *reader) {
  unsigned shift, last;
  return read_leb(reader, &shift, &last);
}

int64_t hk_memory_reader_sleb(hk_memory_reader_t *reader) {
  unsigned shift, last;
  uint64_t value = read_leb(reader, &shift, &last);
  if (shift < 64 && (last & 0x40) != 0) value |= UINT64_MAX << shift;
  return (int64_t)value;
}

/* ---- Addresses. */

/* The lower half of an encoding is the number's format, the upper half the address that it is relative to. */
enum {
  format_mask = 0x0f,
  format_address = 0x00,
  format_uleb = 0x01,
  format_u2 = 0x02,
  format_u4 = 0x03,
  format_u8 = 0x04,
  format_sleb = 0x09,
  format_s2 = 0x0a,
  format_s4 = 0x0b,
  format_s8 = 0x0c,
  relative_mask = 0x70,
  relative_to_nothing = 0x00,
  relative_to_itself = 0x10,
  relative_to_data = 0x30,
  through_memory = 0x80
};

static uint64_t read_formatted(hk_memory_reader_t *reader, unsigned format) {
  switch (format) {
    case format_address:
    case format_u8:
    case format_s8:
      return hk_memory_reader_number(reader, 8);
    case format_uleb:
      return hk_memory_reader_uleb(reader);
    case format_sleb:
      return (uint64_t)hk_memory_reader_sleb(reader);
    case format_u2:
      return hk_memory_reader_number(reader, 2);
    case format_s2:
      return (uint64_t)(int16_t)hk_memory_reader_number(reader, 2);
    case format_u4:
      return hk_memory_reader_number(reader, 4);
    case format_s4:
      return (uint64_t)(int32_t)hk_memory_reader_number(reader, 4);
    default:
      reader->failed = true;
      return 0;
  }
}

uint64_t hk_memory_reader_pointer(hk_memory_reader_t *reader, unsigned encoding, uintptr_t data) {
  uintptr_t itself = reader->at;
  uint64_t value = read_formatted(reader, encoding & format_mask);
  if (encoding == HK_POINTER_OMITTED || (encoding & through_memory) != 0) reader->failed = true;
  switch (encoding & relative_mask) {
    case relative_to_nothing:
      return value;
    case relative_to_itself:
      return itself + value;
    case relative_to_data:
      return data + value;
    default:
      reader->failed = true;
      return 0;
  }
}
