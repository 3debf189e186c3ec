/* unwind/unwind_table.c - L6. See unwind_table.h. The index is a sorted array of pairs: a function's first address, and
 * the place of the function's entry. A binary search finds the pair. The function's entry (FDE) names a common entry
 * (CIE), which many functions share. */
#include "unwind/unwind_table.h"

#include "unwind/call_frame.h"
#include "unwind/memory_reader.h"

/* A longer entry counts as damaged. The instructions of the largest functions take about 10 KiB. */
#define ENTRY_BYTES_MAX (1u << 18)
#define INDEX_VERSION 1
/* Both numbers of a pair have 4 bytes and are relative to the index. Linkers write no other encoding. */
#define INDEX_ENCODING 0x3b
#define INDEX_PAIR_BYTES 8

/* ---- The index. */

/* Stores where the pairs are, and their number. Returns false when there is no index to search. */
static bool read_index_head(hk_memory_reader_t *reader, uintptr_t index, uintptr_t *pairs, uint64_t *count) {
  hk_memory_reader_seek(reader, index, UINTPTR_MAX);
  unsigned version = (unsigned)hk_memory_reader_number(reader, 1);
  unsigned table_encoding = (unsigned)hk_memory_reader_number(reader, 1);
  unsigned count_encoding = (unsigned)hk_memory_reader_number(reader, 1);
  unsigned pair_encoding = (unsigned)hk_memory_reader_number(reader, 1);
  if (reader->failed || version != INDEX_VERSION || pair_encoding != INDEX_ENCODING) return false;
  (void)hk_memory_reader_pointer(reader, table_encoding, index);
  *count = hk_memory_reader_pointer(reader, count_encoding, index);
  *pairs = reader->at;
  return !reader->failed && *count > 0 && *count <= UINT32_MAX;
}

/* Reads one number of a pair. */
static uintptr_t read_half(hk_memory_reader_t *reader, uintptr_t index, uintptr_t at) {
  hk_memory_reader_seek(reader, at, UINTPTR_MAX);
  return index + (uintptr_t)(intptr_t)(int32_t)hk_memory_reader_number(reader, 4);
}

/* Returns where the entry of the last function that begins at `pc` or before is; 0 when there is none. */
static uintptr_t find_entry(hk_memory_reader_t *reader, uintptr_t index, uintptr_t pc) {
  uintptr_t pairs;
  uint64_t low = 0, high;
  if (!read_index_head(reader, index, &pairs, &high)) return 0;
  while (low < high) {
    if ((high - low) * INDEX_PAIR_BYTES <= HK_MEMORY_PIECE_BYTES) { /* one copy has all pairs left */
      hk_memory_reader_seek(reader, pairs + low * INDEX_PAIR_BYTES, UINTPTR_MAX);
      hk_memory_reader_fetch(reader, (high - low) * INDEX_PAIR_BYTES);
    }
    uint64_t middle = low + (high - low) / 2;
    if (read_half(reader, index, pairs + middle * INDEX_PAIR_BYTES) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
    if (reader->failed) return 0;
  }
  return low == 0 ? 0 : read_half(reader, index, pairs + (low - 1) * INDEX_PAIR_BYTES + INDEX_PAIR_BYTES / 2);
}

/* ---- Entries. */

/* Reads an entry's length. Leaves the reader before the entry's first word, and lets it end where the entry does. */
static bool begin_entry(hk_memory_reader_t *reader, uintptr_t at) {
  enum { has_long_length = 0xffffffff };
  hk_memory_reader_seek(reader, at, UINTPTR_MAX);
  uint64_t length = hk_memory_reader_number(reader, 4);
  if (length == has_long_length) length = hk_memory_reader_number(reader, 8);
  if (reader->failed || length == 0 || length > ENTRY_BYTES_MAX || length > UINTPTR_MAX - reader->at) return false;
  reader->end = reader->at + length;
  return true;
}

/* The letters of a common entry's augmentation announce the entry's further data. */
#define LETTERS_MAX 8

static bool read_letters(hk_memory_reader_t *reader, char *letters) {
  for (unsigned i = 0; i < LETTERS_MAX; i++) {
    letters[i] = (char)hk_memory_reader_number(reader, 1);
    if (letters[i] == '\0') return !reader->failed;
  }
  return false;
}

/* Reads the data that the letters announce, and leaves the reader behind it. */
static bool read_announced(hk_memory_reader_t *reader, const char *letters, hk_call_frame_t *frame) {
  frame->pointer_encoding = 0;
  frame->has_announced = *letters == 'z';
  if (*letters != 'z') return *letters == '\0';
  uint64_t length = hk_memory_reader_uleb(reader);
  uintptr_t start = reader->at;
  hk_memory_reader_skip(reader, length);
  if (reader->failed) return false;
  uintptr_t code = reader->at, end = reader->end;
  hk_memory_reader_seek(reader, start, code);
  for (letters++; *letters != '\0'; letters++) {
    if (*letters == 'R') {
      frame->pointer_encoding = (unsigned)hk_memory_reader_number(reader, 1);
    } else if (*letters == 'L') {
      hk_memory_reader_skip(reader, 1);
    } else if (*letters == 'P') {
      unsigned encoding = (unsigned)hk_memory_reader_number(reader, 1);
      (void)hk_memory_reader_pointer(reader, encoding & 0x7f, 0); /* the personality routine: unused */
    } else if (*letters != 'S' && *letters != 'B') {
      break; /* the data of an unknown letter has an unknown form; the length says where it ends */
    }
  }
  hk_memory_reader_seek(reader, code, end);
  return !reader->failed;
}

static bool read_common(hk_memory_reader_t *reader, uintptr_t at, hk_call_frame_t *frame) {
  char letters[LETTERS_MAX];
  if (!begin_entry(reader, at) || hk_memory_reader_number(reader, 4) != 0) return false;
  unsigned version = (unsigned)hk_memory_reader_number(reader, 1);
  if ((version != 1 && version != 3) || !read_letters(reader, letters)) return false;
  frame->code_align = hk_memory_reader_uleb(reader);
  frame->data_align = hk_memory_reader_sleb(reader);
  uint64_t return_register = version == 1 ? hk_memory_reader_number(reader, 1) : hk_memory_reader_uleb(reader);
  if (hk_frame_register_of(return_register) != hk_frame_ra) return false;
  if (!read_announced(reader, letters, frame)) return false;
  frame->common = (hk_call_frame_code_t){reader->at, reader->end};
  return true;
}

/* Reads the function's entry, and the common entry that it names. Returns false when it does not cover `pc`. */
static bool read_entry(hk_memory_reader_t *reader, uintptr_t at, uintptr_t pc, hk_call_frame_t *frame) {
  if (!begin_entry(reader, at)) return false;
  uintptr_t link = reader->at, end = reader->end;
  uint64_t distance = hk_memory_reader_number(reader, 4);
  uintptr_t body = reader->at;
  if (reader->failed || distance == 0 || !read_common(reader, link - distance, frame)) return false;
  hk_memory_reader_seek(reader, body, end);
  frame->start = hk_memory_reader_pointer(reader, frame->pointer_encoding, 0);
  uint64_t bytes = hk_memory_reader_pointer(reader, frame->pointer_encoding & 0x0f, 0);
  if (reader->failed || pc < frame->start || pc - frame->start >= bytes) return false;
  if (frame->has_announced) hk_memory_reader_skip(reader, hk_memory_reader_uleb(reader)); /* data for C++ exceptions */
  frame->function = (hk_call_frame_code_t){reader->at, end};
  return !reader->failed;
}

/* ---- */

bool hk_unwind_table_find(uintptr_t index, uintptr_t pc, hk_frame_rule_t *rule, hk_memory_reader_t *reader) {
  hk_call_frame_t frame;
  hk_memory_reader_init(reader, 0, 0);
  uintptr_t entry = find_entry(reader, index, pc);
  if (entry == 0 || !read_entry(reader, entry, pc, &frame)) return false;
  if (!hk_call_frame_rule(reader, &frame, pc, rule)) return false;
  if (rule->saved[hk_frame_ra] == HK_SAVED_LOST) rule->kind = hk_frame_last;
  return true;
}
