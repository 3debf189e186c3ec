// What tests/preload/late_runtime.c opens: it brings the C++ runtime with it. 1: a block; 2: none, as C++ says it.
#include <cstddef>
#include <new>
#include <vector>

extern "C" int plugin_throwing_new(std::size_t size) {
  try {
    std::vector<char> bytes;
    bytes.reserve(size);
    return 1;
  } catch (const std::bad_alloc &) {
    return 2;
  }
}

extern "C" int plugin_nothrow_new(std::size_t size) {
  char *block = new (std::nothrow) char[size];
  delete[] block;
  return block != nullptr ? 1 : 2;
}
