// base/bytes: numbers as files hold them, and their checksum.
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

TEST(Bytes, TheLowestComesFirst) {
  unsigned char bytes[8] = {0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee};
  hk_bytes_put(bytes, 0x0102030405060708, 3);
  const unsigned char expected[8] = {8, 7, 6, 0xee, 0xee, 0xee, 0xee, 0xee};
  EXPECT_EQ(memcmp(bytes, expected, sizeof bytes), 0);
  EXPECT_EQ(hk_bytes_get(bytes, 2), 0x0708u);
  hk_bytes_put(bytes, UINT64_MAX - 1, 8);
  EXPECT_EQ(hk_bytes_get(bytes, 8), UINT64_MAX - 1);
}

TEST(Bytes, TheChecksumIsTheUsualOne) {
  const unsigned char digits[] = "123456789";
  EXPECT_EQ(hk_bytes_crc32(0, digits, 9), 0xcbf43926u) << "the value that its catalogues give";
  EXPECT_EQ(hk_bytes_crc32(0, digits, 0), 0u);
  EXPECT_EQ(hk_bytes_crc32(hk_bytes_crc32(0, digits, 4), digits + 4, 5), 0xcbf43926u) << "in two parts";
}

}  // namespace
