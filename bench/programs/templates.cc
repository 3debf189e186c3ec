/* bench/programs/templates.cc - a program for `hakmem bench`: gcc compiles it. It makes a compiler build many types. */
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace {

template <int Depth>
struct Tree {
  std::map<int, Tree<Depth - 1>> children;
  std::unordered_map<std::string, std::unique_ptr<Tree<Depth - 1>>> by_name;
  std::variant<int, double, std::string, std::vector<Tree<Depth - 1>>> payload;

  template <class Visitor>
  auto visit(Visitor &&visitor) const {
    return std::visit(visitor, payload);
  }
  std::size_t size() const {
    std::size_t total = by_name.size();
    for (const auto &[key, child] : children) total += child.size() + static_cast<std::size_t>(key);
    return total;
  }
};

template <>
struct Tree<0> {
  std::size_t size() const { return 1; }
};

struct Measure {
  template <class T>
  std::size_t operator()(const T &) const {
    return sizeof(T);
  }
};

template <std::size_t... Index>
auto make_table(std::index_sequence<Index...>) {
  return std::make_tuple(std::function<std::string(int)>(
      [](int value) { return std::to_string(value + static_cast<int>(Index)) + std::string(Index, 'x'); })...);
}

template <class Table, std::size_t... Index>
std::string call_all(const Table &table, std::index_sequence<Index...>) {
  std::ostringstream text;
  ((text << std::get<Index>(table)(static_cast<int>(Index)) << ','), ...);
  return text.str();
}

template <int N>
struct Pipeline {
  static std::vector<std::pair<std::string, int>> run(std::vector<std::pair<std::string, int>> items) {
    std::sort(items.begin(), items.end(), [](const auto &a, const auto &b) { return a.second % N < b.second % N; });
    std::stable_partition(items.begin(), items.end(), [](const auto &item) { return item.first.size() % 2 == N % 2; });
    return Pipeline<N - 1>::run(std::move(items));
  }
};

template <>
struct Pipeline<0> {
  static std::vector<std::pair<std::string, int>> run(std::vector<std::pair<std::string, int>> items) { return items; }
};

}  // namespace

int main() {
  Tree<5> tree;
  constexpr auto indices = std::make_index_sequence<16>{};
  const std::string text = call_all(make_table(indices), indices);
  const auto items = Pipeline<5>::run({{"one", 1}, {"two", 2}});
  std::cout << tree.size() << tree.visit(Measure{}) << text << items.size() << '\n';
}
