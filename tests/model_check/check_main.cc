// Explores the scenarios of a program, all or those named.
//
//   --expect <text>    for a mutant: a scenario has to fail, with a sentence that contains this text
//   --every-order      also runs each with the orders that make no difference, and checks that they make none
//   --list             prints the scenarios' names
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "model_check/explorer.h"
#include "support/scale.h"

namespace {

constexpr uint64_t kExecutionsMax = 20'000'000;

bool IsWanted(const std::vector<std::string> &names, const char *name) {
  for (const std::string &wanted : names) {
    if (wanted == name) return true;
  }
  return names.empty();
}

// Returns the scenario with the bound for the test scale.
scenario_t AtScale(scenario_t scenario) {
  if (hk_test::Scale() < 1 && scenario.preemptions_in_short != 0) scenario.preemptions = scenario.preemptions_in_short;
  return scenario;
}

model_check::Result Run(const scenario_t &scenario) {
  auto start = std::chrono::steady_clock::now();
  model_check::Result result = model_check::Explore(scenario, model_check::Effort{kExecutionsMax});
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (result.violation.empty() && scenario.outcomes != 0 && result.outcomes != scenario.outcomes) {
    char text[96];
    snprintf(text, sizeof text, "outcomes are 0x%zx, not 0x%zx", static_cast<size_t>(result.outcomes),
             static_cast<size_t>(scenario.outcomes));
    result.violation = text;
  }
  if (scenario.violation != nullptr) {
    bool as_expected = result.violation.find(scenario.violation) != std::string::npos;
    result.violation = as_expected ? "" : "not the violation that must be found, but: " + result.violation;
  }
  printf("%-36s %9zu executions (and %zu in vain) of up to %2zu operations on %2zu variables, %6.2f s%s%s\n",
         scenario.name, static_cast<size_t>(result.executions), static_cast<size_t>(result.pruned), result.longest,
         result.shared, took.count(), result.violation.empty() ? "" : ": VIOLATION: ", result.violation.c_str());
  fflush(stdout);
  return result;
}

// Returns whether the search finds the same behaviours with and without sleep sets.
bool AgreesWithEveryOrder(const scenario_t &scenario) {
  std::unordered_set<uint64_t> reduced, all;
  (void)model_check::Explore(scenario, model_check::Effort{kExecutionsMax, false, &reduced});
  model_check::Result result = model_check::Explore(scenario, model_check::Effort{kExecutionsMax, true, &all});
  printf("%-36s %9zu behaviours, and %zu in every order, in %zu executions\n", scenario.name, reduced.size(),
         all.size(), static_cast<size_t>(result.executions));
  fflush(stdout);
  return reduced == all;
}

}  // namespace

int main(int argc, char **argv) {
  std::string expected;
  std::vector<std::string> names;
  bool every_order = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--expect") == 0 && i + 1 < argc) {
      expected = argv[++i];
    } else if (strcmp(argv[i], "--every-order") == 0) {
      every_order = true;
    } else if (strcmp(argv[i], "--list") == 0) {
      for (const scenario_t *scenario = scenarios; scenario->name != nullptr; scenario++) puts(scenario->name);
      return 0;
    } else {
      names.push_back(argv[i]);
    }
  }
  unsigned run = 0, violations = 0;
  for (const scenario_t *scenario = scenarios; scenario->name != nullptr; scenario++) {
    if (!IsWanted(names, scenario->name)) continue;
    run++;
    std::string violation = Run(AtScale(*scenario)).violation;
    if (every_order && violation.empty() && !AgreesWithEveryOrder(*scenario))
      violation = "the reduction loses something";
    if (violation.empty()) continue;
    violations++;
    if (!expected.empty() && violation.find(expected) != std::string::npos) {
      puts("the mutant is caught, as it must be");
      return 0;
    }
  }
  if (run == 0) puts("no such scenario");
  if (!expected.empty()) printf("the mutant is not caught: nobody says \"%s\"\n", expected.c_str());
  return run > 0 && violations == 0 && expected.empty() ? 0 : 1;
}
