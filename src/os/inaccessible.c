/* os/inaccessible.c - L1. See inaccessible.h. A mapping over the old one changes the access and drops the contents in
 * one call. Inaccessible mappings do not count as memory that the kernel has to back. */
#define _GNU_SOURCE 1

#include "os/inaccessible.h"

#include <stdint.h>
#include <sys/mman.h>

#include "os/mapping_call.h"
#include "os/syscall.h"

void *hk_inaccessible_reserve(size_t bytes) {
  long start = hk_mapping_call_map(0, bytes, PROT_NONE, MAP_NORESERVE);
  return hk_syscall_failed(start) ? NULL : (void *)start;
}

void hk_inaccessible_release(void *start, size_t bytes) { (void)hk_mapping_call_unmap((uintptr_t)start, bytes); }

bool hk_inaccessible_open(void *start, size_t bytes) {
  return !hk_syscall_failed(hk_mapping_call_map((uintptr_t)start, bytes, PROT_READ | PROT_WRITE, MAP_FIXED));
}

bool hk_inaccessible_close(void *start, size_t bytes) {
  return !hk_syscall_failed(hk_mapping_call_map((uintptr_t)start, bytes, PROT_NONE, MAP_FIXED | MAP_NORESERVE));
}
