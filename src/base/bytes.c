/* base/bytes.c - L0. See bytes.h. */
#include "base/bytes.h"

void hk_bytes_put(unsigned char *bytes, uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; i++) bytes[i] = (unsigned char)(value >> (8 * i));
}

uint64_t hk_bytes_get(const unsigned char *bytes, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
  return value;
}

uint32_t hk_bytes_crc32(uint32_t before, const unsigned char *bytes, size_t length) {
  uint32_t crc = ~before;
  for (size_t i = 0; i < length; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0xedb88320) : 0);
  }
  return ~crc;
}
