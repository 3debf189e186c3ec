// Reads a trace of bytes in use as docs/learning.md describes it, and shares nothing with what writes one.
#ifndef HK_TESTS_UNIT_LEVEL_TRACE_READER_H
#define HK_TESTS_UNIT_LEVEL_TRACE_READER_H

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace hk_test {
inline namespace level_trace_reader {

struct LevelPoint {
  uint64_t ms;
  uint64_t units;
  bool operator==(const LevelPoint &other) const { return ms == other.ms && units == other.units; }
};

inline std::ostream &operator<<(std::ostream &out, const LevelPoint &point) {
  return out << point.units << " at " << point.ms;
}

struct LevelFile {
  uint64_t price = 0;
  unsigned chunk_count = 0;
  std::vector<LevelPoint> points;
};

class LevelReader {
 public:
  // Throws where the bytes are no whole trace.
  static LevelFile Read(const std::string &bytes) { return LevelReader(bytes).All(); }

  static LevelFile ReadFile(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("no file " + path);
    return Read({std::istreambuf_iterator<char>(file), {}});
  }

  // The checksum as its definition has it: the remainder of a division of polynomials, all bits reflected.
  static uint32_t Checksum(const std::string &bytes) {
    uint32_t remainder = 0xffffffff;
    for (char byte : bytes) {
      for (int bit = 0; bit < 8; bit++) {
        bool is_odd = (remainder >> 31 & 1) != (static_cast<unsigned>(byte) >> bit & 1);
        remainder <<= 1;
        if (is_odd) remainder ^= 0x04c11db7;
      }
    }
    uint32_t reflected = 0;
    for (int bit = 0; bit < 32; bit++) reflected |= (~remainder >> bit & 1) << (31 - bit);
    return reflected;
  }

 private:
  explicit LevelReader(const std::string &bytes) : bytes_(bytes) {}

  LevelFile All() {
    Require(bytes_.compare(0, 8, "hkLEVEL\n") == 0, "it does not begin as a trace");
    at_ = 8;
    Require(Number(2) == 1 && Number(2) == 28 && Number(4) == 65536, "version, header or unit");
    file_.price = Number(8);
    Require(Number(4) == Checksum(bytes_.substr(0, 24)), "the header's checksum");
    while (at_ < bytes_.size()) Chunk();
    return file_;
  }

  void Chunk() {
    std::string sizes = bytes_.substr(at_, 8);
    uint64_t length = Number(4), count = Number(4), checksum = Number(4);
    Require(at_ + length <= bytes_.size(), "a chunk is cut off");
    Require(checksum == Checksum(sizes + bytes_.substr(at_, length)), "a chunk's checksum");
    uint64_t end = at_ + length;
    for (; count > 0; count--) {
      last_.ms += Packed();
      uint64_t change = Packed();
      last_.units += change % 2 == 0 ? change / 2 : 0 - (change + 1) / 2;
      file_.points.push_back(last_);
    }
    Require(at_ == end, "a chunk's length");
    file_.chunk_count++;
  }

  uint64_t Number(unsigned count) {
    Require(at_ + count <= bytes_.size(), "a number is cut off");
    uint64_t value = 0;
    for (unsigned i = count; i > 0; i--) value = value << 8 | static_cast<unsigned char>(bytes_[at_ + i - 1]);
    at_ += count;
    return value;
  }

  uint64_t Packed() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      uint64_t byte = Number(1);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw std::runtime_error("a number without an end");
  }

  static void Require(bool holds, const char *what) {
    if (!holds) throw std::runtime_error(what);
  }

  std::string bytes_;
  size_t at_ = 0;
  LevelPoint last_ = {0, 0};
  LevelFile file_;
};

}  // namespace level_trace_reader
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_LEVEL_TRACE_READER_H
