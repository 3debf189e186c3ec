// What a process makes of an environment, and what it says about it. Options are loaded once, so each case runs in a
// child.
#ifndef HK_TESTS_UNIT_LOADED_OPTIONS_H
#define HK_TESTS_UNIT_LOADED_OPTIONS_H

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "in_child.h"
#include "policy/option.h"

namespace hk_test {
inline namespace loaded_options {

struct Loaded {
  hk_option_t option;
  uint64_t writes;
  char warnings[4096];
};

// The options after a process with this environment has loaded them.
inline Loaded Load(std::vector<const char *> environment, bool is_secure_exec = false) {
  Shared<Loaded> loaded;
  environment.push_back(nullptr);
  EXPECT_EQ(InChild([&] {
              fake_os_set_environment(environment.data());
              fake_os_set_secure_exec(is_secure_exec);
              hk_option_load();
              loaded->option = hk_option;
              loaded->writes = fake_os_stderr_writes();
              strncpy(loaded->warnings, fake_os_stderr(), sizeof(loaded->warnings) - 1);
              return 0;
            }),
            0);
  return *loaded;
}

inline bool IsDefault(const hk_option_t &option) { return memcmp(&option, &hk_option, sizeof(option)) == 0; }

}  // namespace loaded_options
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_LOADED_OPTIONS_H
