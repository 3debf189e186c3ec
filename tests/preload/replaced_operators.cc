// Only plain new and delete are replaced, by ones that put a header before each block: every other form must
// use them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {
constexpr std::size_t header = 32;
int live;
struct record_t {
  int words[10];
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
  delete[] record;
  std::vector<int> numbers(1000);
  for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1000;
  std::stable_sort(numbers.begin(), numbers.end());  // takes its buffer by nothrow new
  std::vector<int>().swap(numbers);
  if (live != 0) return 4;
  std::puts("ok");
  return 0;
}
