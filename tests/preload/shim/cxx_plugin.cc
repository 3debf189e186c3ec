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

static int handler_calls;
static void give_up() {
  handler_calls++;
  throw std::bad_alloc();
}

// The same with a handler that throws: 2 if each form has called it.
extern "C" int plugin_nothrow_new_with_handler(std::size_t size) {
  constexpr std::align_val_t kAlignment{64};
  std::new_handler before = std::set_new_handler(give_up);
  handler_calls = 0;
  void *plain = ::operator new(size, std::nothrow), *array = ::operator new[](size, std::nothrow);
  void *aligned = ::operator new(size, kAlignment, std::nothrow);
  void *aligned_array = ::operator new[](size, kAlignment, std::nothrow);
  std::set_new_handler(before);
  int blocks = (plain != nullptr) + (array != nullptr) + (aligned != nullptr) + (aligned_array != nullptr);
  ::operator delete(plain);
  ::operator delete[](array);
  ::operator delete(aligned, kAlignment);
  ::operator delete[](aligned_array, kAlignment);
  if (blocks == 4 && handler_calls == 0) return 1;
  return blocks == 0 && handler_calls == 4 ? 2 : 3;
}
