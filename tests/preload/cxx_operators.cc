// Every form of operator new and delete, by the C++17 standard, and what the library makes of them. Prints `ok`.
#include "check.h"

#include <dlfcn.h>

#include <malloc.h>
#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

const std::size_t sizes[] = {0, 1, 16, 24, 1000, 1025, 5000, 40000, 200000, 3000000};
volatile std::size_t too_large = static_cast<std::size_t>(PTRDIFF_MAX) + 1;

bool is_aligned(const void *block, std::size_t alignment) {
  return reinterpret_cast<uintptr_t>(block) % alignment == 0;
}

void *checked(void *block, std::size_t size, std::size_t alignment) {
  CHECK(block != nullptr && is_aligned(block, alignment) && malloc_usable_size(block) >= size);
  paint(block, size, 4);
  return block;
}

void test_plain_forms() {
  for (std::size_t size : sizes) {
    ::operator delete(checked(::operator new(size), size, 16));
    ::operator delete(checked(::operator new(size), size, 16), size);
    ::operator delete[](checked(::operator new[](size), size, 16));
    ::operator delete[](checked(::operator new[](size), size, 16), size);
    ::operator delete(checked(::operator new(size, std::nothrow), size, 16), std::nothrow);
    ::operator delete[](checked(::operator new[](size, std::nothrow), size, 16), std::nothrow);
  }
}

void test_aligned_forms() {
  for (std::size_t alignment = 1; alignment <= 65536; alignment *= 4) {
    const std::align_val_t align{alignment};
    for (std::size_t size : sizes) {
      ::operator delete(checked(::operator new(size, align), size, alignment), align);
      ::operator delete(checked(::operator new(size, align), size, alignment), size, align);
      ::operator delete[](checked(::operator new[](size, align), size, alignment), align);
      ::operator delete[](checked(::operator new[](size, align), size, alignment), size, align);
      ::operator delete(checked(::operator new(size, align, std::nothrow), size, alignment), align, std::nothrow);
      ::operator delete[](checked(::operator new[](size, align, std::nothrow), size, alignment), align, std::nothrow);
    }
  }
}

void test_null() {
  ::operator delete(nullptr);
  ::operator delete (nullptr, std::size_t{8});
  ::operator delete[](nullptr);
  ::operator delete[](nullptr, std::align_val_t{64});
  ::operator delete (nullptr, std::size_t{8}, std::align_val_t{64});
}

void test_zero_sizes() {
  void *first = ::operator new(0), *second = ::operator new(0);
  CHECK(first != nullptr && second != nullptr && first != second);
  ::operator delete(first);
  ::operator delete(second);
}

void *volatile sink;  // the compiler may leave out a call whose result is not used

template <typename Action>
bool throws_bad_alloc(Action action) {
  try {
    sink = action();
  } catch (const std::bad_alloc &) {
    return true;
  }
  return false;
}

void test_refusal_without_handler() {
  CHECK(std::get_new_handler() == nullptr);
  CHECK(throws_bad_alloc([] { return ::operator new(too_large); }));
  CHECK(throws_bad_alloc([] { return ::operator new[](too_large); }));
  CHECK(throws_bad_alloc([] { return ::operator new (too_large, std::align_val_t{64}); }));
  CHECK(throws_bad_alloc([] { return ::operator new[](too_large, std::align_val_t{4096}); }));
  CHECK(::operator new(too_large, std::nothrow) == nullptr);
  CHECK(::operator new[](too_large, std::nothrow) == nullptr);
  CHECK(::operator new (too_large, std::align_val_t{64}, std::nothrow) == nullptr);
  CHECK(::operator new[](too_large, std::align_val_t{64}, std::nothrow) == nullptr);
}

int handler_calls = 0;

// Gives up at the third call, by the way that the standard names: no handler any more.
void give_up_handler() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

struct own_exception : std::bad_alloc {};
void throwing_handler() { throw own_exception{}; }

void test_handler_is_called() {
  const auto plain = +[] { return ::operator new(too_large); };
  const auto aligned = +[] { return ::operator new (too_large, std::align_val_t{64}); };
  for (const auto &action : {plain, aligned}) {
    handler_calls = 0;
    std::set_new_handler(give_up_handler);
    CHECK(throws_bad_alloc(action) && handler_calls == 3);
  }
  handler_calls = 0;
  std::set_new_handler(give_up_handler);
  CHECK(::operator new(too_large, std::nothrow) == nullptr &&handler_calls == 3);

  std::set_new_handler(throwing_handler);
  bool was_own = false;
  try {
    sink = ::operator new(too_large);
  } catch (const own_exception &) {
    was_own = true;
  }
  CHECK(was_own);
  CHECK(::operator new(too_large, std::nothrow) == nullptr);  // the handler's exception ends there
  std::set_new_handler(nullptr);
}

void test_containers() {
  std::map<std::string, std::vector<int>> table;
  for (int i = 0; i < 20000; ++i) table[std::to_string(i % 3000) + std::string(i % 50, 'x')].push_back(i);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&table] {
      const auto copy = table;
      std::ostringstream text;
      for (const auto &[name, numbers] : copy) text << name << numbers.size();
      CHECK(text.str().size() > 50000);
    });
  }
  for (auto &thread : threads) thread.join();
  struct alignas(256) wide {
    char bytes[300];
  };
  std::vector<std::unique_ptr<wide>> wides;
  for (int i = 0; i < 1000; ++i) CHECK(is_aligned(wides.emplace_back(std::make_unique<wide>()).get(), 256));
  auto shared = std::make_shared<std::string>(5000, 'y');
  std::thread([shared = std::move(shared)]() mutable { shared.reset(); }).join();
}

}  // namespace

int main() {
  for (int round = 0; round < 2; ++round) {
    test_plain_forms();
    test_aligned_forms();
    test_null();
    test_zero_sizes();
    test_refusal_without_handler();
    test_handler_is_called();
    test_containers();
  }
  puts("ok");
  return 0;
}
