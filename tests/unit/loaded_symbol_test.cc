// os/loaded_symbol: functions of the C library are found where dlsym finds them, and those of an object without a hash
// table by its symbols.
#include "os/loaded_symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <cstddef>
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

// ---- An object like the vDSO: its addresses are as in the file, and it has no GNU hash table.

constexpr uintptr_t kFunctionOffset = 0x123;

struct Object {
  Elf64_Ehdr header = {};
  Elf64_Phdr segment[2] = {};
  Elf64_Dyn dynamic[3] = {};
  Elf64_Sym symbol[4] = {};
  char names[32] = "\0wanted\0data\0other";
};

// Linked for the address `linked_at`.
Object MakeObject(uintptr_t linked_at) {
  Object object;
  object.header.e_phoff = offsetof(Object, segment);
  object.header.e_phnum = 2;
  object.segment[0] = {.p_type = PT_LOAD,
                       .p_flags = PF_R,
                       .p_offset = 0,
                       .p_vaddr = linked_at,
                       .p_paddr = 0,
                       .p_filesz = sizeof object,
                       .p_memsz = sizeof object,
                       .p_align = 0};
  object.segment[1].p_type = PT_DYNAMIC;
  object.segment[1].p_offset = offsetof(Object, dynamic);
  object.segment[1].p_vaddr = linked_at + offsetof(Object, dynamic);
  object.dynamic[0] = {DT_SYMTAB, {.d_ptr = linked_at + offsetof(Object, symbol)}};
  object.dynamic[1] = {DT_STRTAB, {.d_ptr = linked_at + offsetof(Object, names)}};
  unsigned char function = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  object.symbol[1] = {8, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, 1, linked_at + 1, 0};
  object.symbol[2] = {13, function, 0, SHN_UNDEF, 0, 0};
  object.symbol[3] = {1, function, 0, 1, linked_at + kFunctionOffset, 0};
  return object;
}

// Kernels before 3.15 link the vDSO of x86-64 for the last of these.
TEST(LoadedSymbol, OfAnObjectWithoutAHashTable) {
  for (uintptr_t linked_at : {uintptr_t{0}, uintptr_t{0x1000}, uintptr_t{0xffffffffff700000}}) {
    Object object = MakeObject(linked_at);
    uintptr_t header = reinterpret_cast<uintptr_t>(&object);
    EXPECT_EQ(hk_loaded_symbol_find(header, "wanted"), header + kFunctionOffset) << linked_at;
    EXPECT_EQ(hk_loaded_symbol_find(header, "data"), 0u) << "no function";
    EXPECT_EQ(hk_loaded_symbol_find(header, "other"), 0u) << "undefined";
    EXPECT_EQ(hk_loaded_symbol_find(header, "absent"), 0u);
  }
}

}  // namespace
