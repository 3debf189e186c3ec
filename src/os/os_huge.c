/* os/os_huge.c - L1. Implements the huge pages of os.h on Linux. */
#include <sys/mman.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include "os/huge_setting.h"
#include "os/mapping_call.h"
#include "os/os.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Returns whether huge pages have 2 MiB. One page of a page table, with entries of 8 bytes, describes a huge page: 2
 * MiB where pages are 4 KiB. */
static bool have_our_size(void) { return hk_os_page_size() / 8 * hk_os_page_size() == HK_SUPERSLAB_BYTES; }

/* 1 + the system's setting (hk_os_huge_t); 0: not yet read. Every thread reads the same value. */
static _Atomic(int) known_setting;

static hk_os_huge_t read_setting(void) {
  return have_our_size() ? hk_huge_setting_read("/sys/kernel/mm/transparent_hugepage/enabled") : hk_os_huge_never;
}

hk_os_huge_t hk_os_huge_setting(void) {
  int known = hk_load_relaxed(&known_setting);
  if (HK_UNLIKELY(known == 0)) {
    known = 1 + (int)read_setting();
    hk_store_relaxed(&known_setting, known);
  }
  return (hk_os_huge_t)(known - 1);
}

bool hk_os_huge_advise(void *start, size_t bytes, bool is_wanted) {
  return hk_mapping_call_advise(start, bytes, is_wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
}

void hk_os_huge_keep_small(void *start, size_t bytes) {
  if (hk_os_huge_setting() != hk_os_huge_everywhere) return;
  uintptr_t first = hk_align_up((uintptr_t)start, hk_os_page_size());
  uintptr_t end = hk_align_down((uintptr_t)start + bytes, hk_os_page_size());
  if (first < end) (void)hk_os_huge_advise((void *)first, end - first, false);
}

void *hk_os_reserve_small(size_t bytes, size_t alignment) {
  void *start = hk_os_reserve(bytes, alignment);
  if (start != NULL) hk_os_huge_keep_small(start, bytes);
  return start;
}

/* Returns 0 where one of the two readings is missing: no huge page is dear then. */
static uint64_t cpu_ns_since(uint64_t before_ns) {
  return before_ns == 0 ? 0 : hk_subtract_to_zero(hk_os_thread_cpu_ns(), before_ns);
}

uint64_t hk_os_huge_touch(void *start) {
  uint64_t before_ns = hk_os_thread_cpu_ns();
  (void)__atomic_fetch_or((unsigned char *)start, 0, __ATOMIC_RELAXED);
  return cpu_ns_since(before_ns);
}

bool hk_os_huge_collapse(void *start, size_t bytes, uint64_t *cpu_ns) {
  uint64_t before_ns = hk_os_thread_cpu_ns();
  bool is_done = hk_mapping_call_advise(start, bytes, MADV_COLLAPSE) == 0;
  *cpu_ns = cpu_ns_since(before_ns);
  return is_done;
}
