// Only plain and aligned new and delete are replaced, by ones that put a header before each block: every other form
// must use them. And no form uses a replaced nothrow form.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {
constexpr std::size_t header = 32;
constexpr std::size_t aligned_header = 64;
int live, aligned_live, nothrow_calls;
struct record_t {
  int words[10];
};
struct alignas(aligned_header) line_t {
  int words[16];
};
}  // namespace

void *operator new(std::size_t size) {
  char *start = static_cast<char *>(std::malloc(size + header));
  if (start == nullptr) throw std::bad_alloc();
  live++;
  return start + header;
}

void operator delete(void *block) noexcept {
  if (block == nullptr) return;
  live--;
  std::free(static_cast<char *>(block) - header);
}

void *operator new(std::size_t size, std::align_val_t alignment) {
  char *start = static_cast<char *>(std::aligned_alloc(static_cast<std::size_t>(alignment), size + aligned_header));
  if (start == nullptr) throw std::bad_alloc();
  aligned_live++;
  return start + aligned_header;
}

void operator delete(void *block, std::align_val_t) noexcept {
  if (block == nullptr) return;
  aligned_live--;
  std::free(static_cast<char *>(block) - aligned_header);
}

// As the default does, and counted.
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
  nothrow_calls++;
  try {
    return ::operator new(size);
  } catch (...) {
    return nullptr;
  }
}

namespace {

int aligned_forms() {
  line_t *line = new (std::nothrow) line_t;
  if (aligned_live != 1) return 11;
  delete line;
  line = new line_t[3];
  if (aligned_live != 1) return 12;
  delete[] line;
  line = new (std::nothrow) line_t[3];
  if (aligned_live != 1) return 13;
  delete[] line;
  return aligned_live == 0 ? 0 : 14;
}

}  // namespace

int main() {
  record_t *record = new record_t;
  delete record;  // the sized form
  record = new (std::nothrow) record_t;
  if (live != 1) return 1;
  operator delete(record, std::nothrow);
  record = new record_t[10];
  if (live != 1) return 2;
  delete[] record;
  record = new (std::nothrow) record_t[10];
  if (live != 1) return 3;
  if (nothrow_calls != 1) return 5;
  delete[] record;
  std::vector<int> numbers(1000);
  for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1000;
  std::stable_sort(numbers.begin(), numbers.end());  // takes its buffer by nothrow new
  std::vector<int>().swap(numbers);
  if (live != 0) return 4;
  const int wrong = aligned_forms();
  if (wrong != 0) return wrong;
  std::puts("ok");
  return 0;
}
