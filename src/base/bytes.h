/* base/bytes.h - L0. Numbers as files hold them, the lowest byte first on every machine, and the checksum over them. */
#ifndef HK_BASE_BYTES_H
#define HK_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The lowest `count` bytes of a number, at most eight. */
void hk_bytes_put(unsigned char *bytes, uint64_t value, unsigned count);
uint64_t hk_bytes_get(const unsigned char *bytes, unsigned count);

/* CRC-32, the one of zip, zlib and Ethernet, of what had the checksum `before` (0: of nothing) and these bytes behind it. */
uint32_t hk_bytes_crc32(uint32_t before, const unsigned char *bytes, size_t length);

HK_C_END

#endif /* HK_BASE_BYTES_H */
