/* base/bytes.h - L0. Numbers in the byte order of the project's files, lowest byte first on every machine, and their
 * checksum. */
#ifndef HK_BASE_BYTES_H
#define HK_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Write and read the lowest `count` bytes of a number; `count` is at most eight. */
void hk_bytes_put(unsigned char *bytes, uint64_t value, unsigned count);
uint64_t hk_bytes_get(const unsigned char *bytes, unsigned count);

/* Continues a CRC-32 (that of zip, zlib and Ethernet) over these bytes. `before` is the checksum of the bytes that
 * precede them, 0 at the beginning. */
uint32_t hk_bytes_crc32(uint32_t before, const unsigned char *bytes, size_t length);

HK_C_END

#endif /* HK_BASE_BYTES_H */
