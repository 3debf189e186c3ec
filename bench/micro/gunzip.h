/* bench/micro/gunzip.h - unpacks a gzip file (RFC 1951, RFC 1952) that is in memory.
 *
 * The program whose allocator is measured cannot use zlib, which allocates, nor start gzip, whose memory is sampled
 * too. The whole output is the window, so nothing but the output is needed. A file of one member is read, as gzip
 * writes it.
 */
#ifndef BENCH_GUNZIP_H
#define BENCH_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  gunzip_head_bytes = 10,
  gunzip_tail_bytes = 8,
  gunzip_has_name = 8, /* the only flag that is read: the file's name follows the head */
  gunzip_word_bits_most = 15,
  gunzip_symbols_most = 288,
  gunzip_distances_most = 32,
  gunzip_end_of_part = 256,
  gunzip_length_count = 29,
  gunzip_distance_count = 30,
};

typedef struct {
  const uint8_t *input;
  size_t input_size, input_at;
  uint32_t bits;
  unsigned bit_count;
  uint8_t *output;
  size_t output_size, output_at;
  bool is_damaged; /* from then on each bit is 0 */
} gunzip_t;

/* A prefix code: how many words each length has, and their symbols, in the order of the words. */
typedef struct {
  uint16_t count[gunzip_word_bits_most + 1];
  uint16_t symbols[gunzip_symbols_most];
} gunzip_code_t;

static inline uint32_t gunzip_bits(gunzip_t *file, unsigned count) {
  while (file->bit_count < count) {
    if (file->input_at == file->input_size) {
      file->is_damaged = true;
      return 0;
    }
    file->bits |= (uint32_t)file->input[file->input_at++] << file->bit_count;
    file->bit_count += 8;
  }
  const uint32_t value = file->bits & ((1u << count) - 1);
  file->bits >>= count;
  file->bit_count -= count;
  return value;
}

/* The code that the lengths of its words define. */
static inline void gunzip_make_code(gunzip_code_t *code, const uint8_t *lengths, unsigned symbol_count) {
  uint16_t at[gunzip_word_bits_most + 1] = {0};
  memset(code->count, 0, sizeof code->count);
  for (unsigned symbol = 0; symbol < symbol_count; ++symbol) ++code->count[lengths[symbol]];
  code->count[0] = 0;
  for (unsigned length = 1; length < gunzip_word_bits_most; ++length) {
    at[length + 1] = (uint16_t)(at[length] + code->count[length]);
  }
  for (unsigned symbol = 0; symbol < symbol_count; ++symbol) {
    if (lengths[symbol] != 0) code->symbols[at[lengths[symbol]]++] = (uint16_t)symbol;
  }
}

static inline unsigned gunzip_symbol(gunzip_t *file, const gunzip_code_t *code) {
  uint32_t word = 0, first = 0,
           shorter = 0; /* first: the first word of this length; shorter: how many shorter ones are */
  for (unsigned length = 1; length <= gunzip_word_bits_most && !file->is_damaged; ++length) {
    word = word << 1 | gunzip_bits(file, 1);
    if (word - first < code->count[length]) return code->symbols[shorter + word - first];
    shorter += code->count[length];
    first = (first + code->count[length]) << 1;
  }
  file->is_damaged = true;
  return gunzip_end_of_part;
}

static inline void gunzip_put(gunzip_t *file, uint8_t byte) {
  if (file->output_at == file->output_size) {
    file->is_damaged = true;
  } else {
    file->output[file->output_at++] = byte;
  }
}

/* Copies what the output has already; source and target may overlap. */
static inline void gunzip_repeat(gunzip_t *file, const gunzip_code_t *distances, unsigned symbol) {
  static const uint16_t least_length[gunzip_length_count] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                                             15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                                             67, 83, 99, 115, 131, 163, 195, 227, 258};
  static const uint8_t length_bits[gunzip_length_count] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                           2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  if (symbol >= gunzip_length_count) {
    file->is_damaged = true;
    return;
  }
  const size_t length = least_length[symbol] + gunzip_bits(file, length_bits[symbol]);
  const unsigned reach = gunzip_symbol(file, distances);
  if (reach >= gunzip_distance_count) {
    file->is_damaged = true;
    return;
  }
  /* Each two symbols share a number of bits; the first four distances have none. */
  const unsigned reach_bits = reach < 4 ? 0 : reach / 2 - 1;
  const size_t least = reach < 4 ? reach + 1 : ((2u + reach % 2) << reach_bits) + 1;
  const size_t distance = least + gunzip_bits(file, reach_bits);
  if (distance > file->output_at) file->is_damaged = true;
  for (size_t i = 0; i < length && !file->is_damaged; ++i) gunzip_put(file, file->output[file->output_at - distance]);
}

static inline void gunzip_coded_part(gunzip_t *file, const gunzip_code_t *symbols, const gunzip_code_t *distances) {
  while (!file->is_damaged) {
    const unsigned symbol = gunzip_symbol(file, symbols);
    if (symbol == gunzip_end_of_part) return;
    if (symbol < gunzip_end_of_part) {
      gunzip_put(file, (uint8_t)symbol);
    } else {
      gunzip_repeat(file, distances, symbol - gunzip_end_of_part - 1);
    }
  }
}

static inline void gunzip_stored_part(gunzip_t *file) {
  gunzip_bits(file, file->bit_count % 8);
  const uint32_t size = gunzip_bits(file, 16), inverse = gunzip_bits(file, 16);
  if (size != (inverse ^ 0xffffu)) file->is_damaged = true;
  for (uint32_t i = 0; i < size && !file->is_damaged; ++i) gunzip_put(file, (uint8_t)gunzip_bits(file, 8));
}

static inline void gunzip_fixed_part(gunzip_t *file) {
  uint8_t lengths[gunzip_symbols_most + gunzip_distances_most];
  memset(lengths, 8, 144);
  memset(lengths + 144, 9, 112);
  memset(lengths + 256, 7, 24);
  memset(lengths + 280, 8, 8);
  memset(lengths + gunzip_symbols_most, 5, gunzip_distances_most);
  gunzip_code_t symbols, distances;
  gunzip_make_code(&symbols, lengths, gunzip_symbols_most);
  gunzip_make_code(&distances, lengths + gunzip_symbols_most, gunzip_distances_most);
  gunzip_coded_part(file, &symbols, &distances);
}

/* The lengths of both codes, which are themselves coded: a length, or a repetition of the one before or of 0. */
static inline void gunzip_read_lengths(gunzip_t *file, uint8_t *lengths, unsigned count) {
  static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  static const struct { uint8_t bits, least; } repetitions[3] = {{2, 3}, {3, 3}, {7, 11}};
  uint8_t of_lengths[19] = {0};
  gunzip_code_t code;
  const unsigned order_count = gunzip_bits(file, 4) + 4;
  for (unsigned i = 0; i < order_count; ++i) of_lengths[order[i]] = (uint8_t)gunzip_bits(file, 3);
  gunzip_make_code(&code, of_lengths, 19);
  for (unsigned at = 0; at < count && !file->is_damaged;) {
    const unsigned symbol = gunzip_symbol(file, &code);
    if (symbol < 16) {
      lengths[at++] = (uint8_t)symbol;
      continue;
    }
    if (symbol > 18 || (symbol == 16 && at == 0)) {
      file->is_damaged = true;
      return;
    }
    const uint8_t length = symbol == 16 ? lengths[at - 1] : 0;
    unsigned times = repetitions[symbol - 16].least + gunzip_bits(file, repetitions[symbol - 16].bits);
    if (times > count - at) file->is_damaged = true;
    for (; times > 0 && !file->is_damaged; --times) lengths[at++] = length;
  }
}

static inline void gunzip_described_part(gunzip_t *file) {
  uint8_t lengths[gunzip_symbols_most + gunzip_distances_most] = {0};
  gunzip_code_t symbols, distances;
  const unsigned symbol_count = gunzip_bits(file, 5) + 257, distance_count = gunzip_bits(file, 5) + 1;
  if (symbol_count > gunzip_symbols_most) file->is_damaged = true;
  if (file->is_damaged) return;
  gunzip_read_lengths(file, lengths, symbol_count + distance_count);
  if (file->is_damaged) return;
  gunzip_make_code(&symbols, lengths, symbol_count);
  gunzip_make_code(&distances, lengths + symbol_count, distance_count);
  gunzip_coded_part(file, &symbols, &distances);
}

static inline uint32_t gunzip_crc(const uint8_t *bytes, size_t size) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (unsigned bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

static inline uint32_t gunzip_number(const uint8_t *bytes) {
  return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline bool gunzip_is_packed(const void *file, size_t size) {
  return size >= 2 && memcmp(file, "\x1f\x8b", 2) == 0;
}

/* How many bytes the file's end says are packed; 0 where it is too short to have one. */
static inline size_t gunzip_unpacked_size(const void *file, size_t size) {
  if (size < gunzip_head_bytes + gunzip_tail_bytes) return 0;
  return gunzip_number((const uint8_t *)file + size - 4);
}

/* Unpacks into `output`, which has gunzip_unpacked_size bytes. False when the file is damaged or has unread flags. */
static inline bool gunzip_unpack(const void *packed, size_t size, void *output) {
  const uint8_t *bytes = packed;
  if (size < gunzip_head_bytes + gunzip_tail_bytes || bytes[2] != 8 || (bytes[3] & ~gunzip_has_name) != 0) return false;
  gunzip_t file = {
      .input = bytes,
      .input_size = size - gunzip_tail_bytes,
      .input_at = gunzip_head_bytes,
      .output = output,
      .output_size = gunzip_unpacked_size(packed, size),
  };
  if (bytes[3] & gunzip_has_name) {
    while (gunzip_bits(&file, 8) != 0) continue;
  }
  for (bool is_last = false; !is_last && !file.is_damaged;) {
    is_last = gunzip_bits(&file, 1) != 0;
    const uint32_t kind = gunzip_bits(&file, 2);
    if (kind == 0) gunzip_stored_part(&file);
    if (kind == 1) gunzip_fixed_part(&file);
    if (kind == 2) gunzip_described_part(&file);
    if (kind == 3) file.is_damaged = true;
  }
  return !file.is_damaged && file.input_at == file.input_size && file.output_at == file.output_size &&
         gunzip_crc(output, file.output_size) == gunzip_number(bytes + file.input_size);
}

#endif /* BENCH_GUNZIP_H */
