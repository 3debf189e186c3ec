// A new_handler that frees a reserve lets operator new succeed. Under a limit that the caller has set. Prints `ok`.
#include "check.h"

#include <new>

namespace {

constexpr std::size_t reserve_bytes = 40 * MIB, piece_bytes = 1 * MIB;

void *reserve;
int handler_calls = 0;

void free_reserve() {
  ++handler_calls;
  std::set_new_handler(nullptr);
  ::operator delete(reserve);
  reserve = nullptr;
}

struct piece_t {
  piece_t *next;
};

}  // namespace

int main() {
  reserve = ::operator new(reserve_bytes);
  std::set_new_handler(free_reserve);
  piece_t *first = nullptr;
  int after_handler = 0;
  for (;;) {
    piece_t *next;
    try {
      next = static_cast<piece_t *>(::operator new(piece_bytes));
    } catch (const std::bad_alloc &) {
      break;
    }
    next->next = first;
    first = next;
    after_handler += handler_calls;
  }
  CHECK(handler_calls == 1);
  // The reserve was used, most of it at least.
  CHECK(after_handler >= static_cast<int>(reserve_bytes / piece_bytes) * 3 / 4);
  while (first != nullptr) {
    piece_t *next = first->next;
    ::operator delete(first);
    first = next;
  }
  puts("ok");
  return 0;
}
