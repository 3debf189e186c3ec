// os/loaded_symbol: functions of the C library are found where dlsym finds them.
#include "os/loaded_symbol.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace {

uintptr_t HeaderOf(void *address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
}

TEST(LoadedSymbol, IsWhereDlsymFindsIt) {
  for (const char *name : {"dlopen", "dlmopen", "abort", "getenv", "qsort", "pthread_create", "fopen"}) {
    void *expected = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(expected, nullptr) << name;
    EXPECT_EQ(hk_loaded_symbol_find(HeaderOf(expected), name), reinterpret_cast<uintptr_t>(expected)) << name;
  }
}

TEST(LoadedSymbol, WhatIsNotThereIsNotFound) {
  uintptr_t header = HeaderOf(dlsym(RTLD_DEFAULT, "abort"));
  for (const char *name : {"", "no_such_function", "dlope", "dlopen2", "environ"}) {
    EXPECT_EQ(hk_loaded_symbol_find(header, name), 0u) << name;
  }
}

}  // namespace
