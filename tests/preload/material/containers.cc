// Enough templates to make a compiler work for its living.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N>
struct chain : chain<N - 1> {
  std::tuple<int, std::string, double> member;
  int sum() const { return std::get<0>(member) + chain<N - 1>::sum(); }
};
template <>
struct chain<0> {
  int sum() const { return 1; }
};

using value = std::variant<int, std::string, std::vector<int>, std::map<std::string, int>>;

int main() {
  std::unordered_map<std::string, value> table;
  table["one"] = 1;
  table["two"] = std::string("zwei");
  table["three"] = std::vector<int>{1, 2, 3};
  const std::regex pattern("([a-z]+)[0-9]*");
  std::vector<std::function<int(int)>> steps;
  for (int i = 0; i < 10; ++i) steps.push_back([i](int x) { return x * 3 + i; });
  const int result =
      std::accumulate(steps.begin(), steps.end(), 1, [](int x, const auto &step) { return step(x) % 1000; });
  std::cout << table.size() << std::regex_match("abc12", pattern) << result << chain<60>{}.sum() << '\n';
}
