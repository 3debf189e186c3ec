/* See fake_os.h. The fake machine's memory, which is real, with checks of the contract of os.h. */
#define _GNU_SOURCE 1

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_os_call.h"
#include "os/os.h"

#define RANGE_MAX 16384
/* A failed purge fills pages with this byte, so that no code relies on the old contents. */
#define GARBAGE 0xdb

typedef struct {
  uintptr_t start;
  uintptr_t end;
} range_t;

/* The mapped ranges, in no order. Neighbours are not joined. */
static range_t ranges[RANGE_MAX];
static size_t range_count;
static size_t mapped_bytes;

/* The state that a reset clears. */
static struct {
  size_t mapped_limit;
  size_t peak_mapped_bytes;
  size_t page_size;
  bool is_lazy_unknown;
  bool is_locked;
  size_t locked_purge_bytes;
  int huge_setting;
  uint64_t huge_fault_ns;
  uint64_t later_huge_fault_ns;
  uint64_t later_huge_fault_touch; /* the number of the first touch that takes this time; 0: none */
  uint64_t huge_collapse_ns;
  uintptr_t huge_touched;
  uint64_t huge_touches;
} memory = {.page_size = 4096};

/* ---- The contract. ---------------------------------------------------------------------------------------------- */

static void broken(const char *function, const char *what, uintptr_t start, size_t bytes) {
  fprintf(stderr, "fake_os: %s: %s: 0x%zx, %zu bytes\n", function, what, (size_t)start, bytes);
  abort();
}

static void require_pages(const char *function, uintptr_t start, size_t bytes) {
  if (bytes == 0 || ((start | bytes) & (memory.page_size - 1)) != 0) broken(function, "not whole pages", start, bytes);
}

/* Returns how many bytes of the range are mapped. Ranges never overlap. */
static size_t mapped_within(uintptr_t start, size_t bytes) {
  size_t total = 0;
  for (size_t i = 0; i < range_count; i++) {
    uintptr_t from = ranges[i].start > start ? ranges[i].start : start;
    uintptr_t to = ranges[i].end < start + bytes ? ranges[i].end : start + bytes;
    if (from < to) total += to - from;
  }
  return total;
}

static void require_mapped(const char *function, uintptr_t start, size_t bytes) {
  require_pages(function, start, bytes);
  if (mapped_within(start, bytes) != bytes) broken(function, "not all of it is mapped", start, bytes);
}

static void add_range(uintptr_t start, size_t bytes) {
  if (range_count == RANGE_MAX) broken("reserve", "more ranges than the fake can hold", start, bytes);
  ranges[range_count++] = (range_t){start, start + bytes};
  mapped_bytes += bytes;
  if (mapped_bytes > memory.peak_mapped_bytes) memory.peak_mapped_bytes = mapped_bytes;
}

static void remove_range(uintptr_t start, size_t bytes) {
  uintptr_t end = start + bytes;
  for (size_t i = 0; i < range_count;) {
    range_t old = ranges[i];
    if (old.end <= start || end <= old.start) {
      i++;
      continue;
    }
    mapped_bytes -= old.end - old.start;
    ranges[i] = ranges[--range_count]; /* comes next; the ranges added below do not overlap the removed one */
    if (old.start < start) add_range(old.start, start - old.start);
    if (end < old.end) add_range(end, old.end - end);
  }
}

/* ---- os.h: memory. ---------------------------------------------------------------------------------------------- */

size_t hk_os_page_size(void) { return memory.page_size; }

size_t hk_os_mapping_count(void) {
  fake_os_lock();
  size_t count = range_count;
  fake_os_unlock();
  return count;
}

size_t hk_os_mapping_limit(void) { return HK_OS_MAPPING_LIMIT; }

static bool is_over_limit(size_t more_bytes) {
  return memory.mapped_limit != 0 &&
         (more_bytes > memory.mapped_limit || mapped_bytes > memory.mapped_limit - more_bytes);
}

static uintptr_t map_aligned(size_t bytes, size_t alignment) {
  size_t total;
  if (__builtin_add_overflow(bytes, alignment, &total)) return 0;
  void *mapped = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return 0;
  uintptr_t start = ((uintptr_t)mapped + alignment - 1) & ~(alignment - 1);
  size_t head_bytes = start - (uintptr_t)mapped;
  if (head_bytes > 0) munmap(mapped, head_bytes);
  if (alignment > head_bytes) munmap((void *)(start + bytes), alignment - head_bytes);
  madvise((void *)start, bytes,
          MADV_NOHUGEPAGE); /* only touched pages are resident, whatever the real machine's setting */
  return start;
}

void *hk_os_reserve(size_t bytes, size_t alignment) {
  fake_os_announce(fake_os_reserve);
  fake_os_lock();
  require_pages("reserve", 0, bytes);
  if (alignment < memory.page_size || (alignment & (alignment - 1)) != 0) {
    broken("reserve", "an alignment that is no power of two from a page up", 0, alignment);
  }
  fake_os_record_t record = {.call = fake_os_reserve, .bytes = bytes, .alignment = alignment};
  if (fake_os_begin(fake_os_reserve) && !is_over_limit(bytes)) record.start = map_aligned(bytes, alignment);
  record.succeeded = record.start != 0;
  if (record.succeeded) add_range(record.start, bytes);
  fake_os_end(record);
  fake_os_unlock();
  return (void *)record.start;
}

bool hk_os_unmap(void *start, size_t bytes) {
  fake_os_lock();
  require_mapped("unmap", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_unmap, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = fake_os_begin(fake_os_unmap) && munmap(start, bytes) == 0;
  if (record.succeeded) remove_range((uintptr_t)start, bytes);
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

bool hk_os_purge(void *start, size_t bytes) {
  fake_os_announce(fake_os_purge);
  fake_os_lock();
  require_mapped("purge", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_purge, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = fake_os_begin(fake_os_purge) && madvise(start, bytes, MADV_DONTNEED) == 0;
  if (!record.succeeded) {
    /* The first and last page suffice for a test, and keep a large range from becoming resident. */
    memset(start, GARBAGE, memory.page_size);
    memset((char *)start + bytes - memory.page_size, GARBAGE, memory.page_size);
  }
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

static void take_every_other_page(char *start, size_t bytes) {
  size_t step = 2 * memory.page_size;
  for (size_t at = 0; at < bytes; at += step) madvise(start + at, memory.page_size, MADV_DONTNEED);
}

bool hk_os_purge_if_locked(void *start, size_t bytes) {
  (void)start;
  fake_os_lock();
  if (memory.is_locked) memory.locked_purge_bytes += bytes;
  bool is_locked = memory.is_locked;
  fake_os_unlock();
  return is_locked;
}

hk_os_purge_t hk_os_purge_lazily(void *start, size_t bytes) {
  fake_os_lock();
  bool is_unknown = memory.is_lazy_unknown;
  require_mapped("purge_lazily", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_purge_lazily, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = fake_os_begin(fake_os_purge_lazily) && !is_unknown;
  if (record.succeeded) take_every_other_page(start, bytes);
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  if (succeeded) return hk_os_purge_lazy;
  return is_unknown && hk_os_purge(start, bytes) ? hk_os_purge_done : hk_os_purge_refused;
}

bool hk_os_prefault(void *start, size_t bytes) {
  fake_os_lock();
  require_mapped("prefault", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_prefault, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = fake_os_begin(fake_os_prefault);
  for (size_t at = 0; record.succeeded && at < bytes; at += memory.page_size)
    (void)__atomic_fetch_or((char *)start + at, 0, __ATOMIC_RELAXED);
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

bool hk_os_resize(void *start, size_t old_bytes, size_t new_bytes) {
  fake_os_lock();
  uintptr_t address = (uintptr_t)start;
  require_mapped("resize", address, old_bytes);
  require_pages("resize", address, new_bytes);
  fake_os_record_t record = {.call = fake_os_resize, .start = address, .bytes = old_bytes, .new_bytes = new_bytes};
  size_t more_bytes = new_bytes > old_bytes ? new_bytes - old_bytes : 0;
  record.succeeded = fake_os_begin(fake_os_resize) && !is_over_limit(more_bytes) &&
                     mremap(start, old_bytes, new_bytes, 0) != MAP_FAILED;
  if (record.succeeded && more_bytes > 0) add_range(address + old_bytes, more_bytes);
  if (record.succeeded && new_bytes < old_bytes) remove_range(address + new_bytes, old_bytes - new_bytes);
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

bool hk_os_move(void *start, size_t old_bytes, void *target, size_t new_bytes) {
  fake_os_lock();
  require_mapped("move", (uintptr_t)start, old_bytes);
  require_mapped("move", (uintptr_t)target, new_bytes);
  if ((uintptr_t)start < (uintptr_t)target + new_bytes && (uintptr_t)target < (uintptr_t)start + old_bytes) {
    broken("move", "onto itself", (uintptr_t)target, new_bytes);
  }
  fake_os_record_t record = {.call = fake_os_move,
                             .start = (uintptr_t)start,
                             .bytes = old_bytes,
                             .new_bytes = new_bytes,
                             .target = (uintptr_t)target};
  record.succeeded = fake_os_begin(fake_os_move) &&
                     mremap(start, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) != MAP_FAILED;
  if (record.succeeded) remove_range((uintptr_t)start, old_bytes);
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  if (succeeded) fake_os_announce(fake_os_move);
  return succeeded;
}

bool hk_os_wipe_on_fork(void *start, size_t bytes) {
  fake_os_lock();
  require_mapped("wipe_on_fork", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_wipe_on_fork, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = fake_os_begin(fake_os_wipe_on_fork) && madvise(start, bytes, MADV_WIPEONFORK) == 0;
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

/* ---- os.h: huge pages. Only pages that the test touched are resident. ------------------------------------------- */

hk_os_huge_t hk_os_huge_setting(void) { return (hk_os_huge_t)memory.huge_setting; }

void hk_os_huge_keep_small(void *start, size_t bytes) {
  (void)start;
  (void)bytes;
}

void *hk_os_reserve_small(size_t bytes, size_t alignment) { return hk_os_reserve(bytes, alignment); }

/* A write to read-only memory ends the test. Pages of the fake machine may be larger than the system's. */
void *hk_os_reserve_readable(size_t bytes, size_t alignment) {
  void *start = hk_os_reserve(bytes, alignment);
  if (start != NULL) mprotect(start, bytes, PROT_READ);
  return start;
}

void *hk_os_reserve_inaccessible(size_t bytes, size_t alignment) {
  void *start = hk_os_reserve(bytes, alignment);
  if (start != NULL) mprotect(start, bytes, PROT_NONE);
  return start;
}

bool hk_os_purge_and_forbid(void *start, size_t bytes) {
  fake_os_lock();
  require_pages("forbid_access", (uintptr_t)start, bytes);
  fake_os_unlock();
  return madvise(start, bytes, MADV_DONTNEED) == 0 && mprotect(start, bytes, PROT_NONE) == 0;
}

bool hk_os_suspend_access(void *start, size_t bytes) {
  fake_os_lock();
  require_pages("suspend_access", (uintptr_t)start, bytes);
  fake_os_unlock();
  return mprotect(start, bytes, PROT_NONE) == 0;
}

bool hk_os_allow_writes(void *start, size_t bytes) {
  fake_os_lock();
  require_pages("allow_writes", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_allow_writes, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = fake_os_begin(fake_os_allow_writes) && mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

void hk_os_forbid_writes(void *start, size_t bytes) {
  size_t page = memory.page_size;
  uintptr_t first = ((uintptr_t)start + page - 1) & ~(page - 1), end = ((uintptr_t)start + bytes) & ~(page - 1);
  if (first < end) mprotect((void *)first, end - first, PROT_READ);
}

static bool advise_huge(fake_os_call_t call, const char *name, void *start, size_t bytes) {
  fake_os_lock();
  require_mapped(name, (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = call, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = fake_os_begin(call);
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

bool hk_os_huge_advise(void *start, size_t bytes, bool is_wanted) {
  return advise_huge(is_wanted ? fake_os_huge_ask : fake_os_huge_forbid, "huge_advise", start, bytes);
}

bool hk_os_huge_collapse(void *start, size_t bytes, uint64_t *cpu_ns) {
  *cpu_ns = memory.huge_collapse_ns;
  fake_os_announce(fake_os_huge_collapse);
  return advise_huge(fake_os_huge_collapse, "huge_collapse", start, bytes);
}

uint64_t hk_os_huge_touch(void *start) {
  memory.huge_touched = (uintptr_t)start;
  uint64_t touch = ++memory.huge_touches, later = memory.later_huge_fault_touch;
  return later != 0 && touch >= later ? memory.later_huge_fault_ns : memory.huge_fault_ns;
}

bool hk_os_resident_pages(void *start, size_t bytes, unsigned char *is_resident) {
  if (!fake_os_grant(fake_os_resident)) return false;
  size_t system_page = (size_t)sysconf(_SC_PAGESIZE), page = hk_os_page_size();
  for (size_t i = 0; i < bytes / page; i++) is_resident[i] = 0;
  for (size_t at = 0; at < bytes; at += system_page) {
    unsigned char one = 0;
    if (mincore((char *)start + at, system_page, &one) != 0) return false;
    is_resident[at / page] |= one & 1;
  }
  return true;
}

size_t hk_os_resident_bytes(void *start, size_t bytes) {
  fake_os_announce(fake_os_resident);
  if (!fake_os_grant(fake_os_resident)) return 0;
  fake_os_lock();
  require_pages("resident_bytes", (uintptr_t)start, bytes);
  size_t resident = 0, system_page = (size_t)sysconf(_SC_PAGESIZE);
  size_t known_bytes = mapped_within((uintptr_t)start, bytes) == bytes ? bytes : 0;
  for (size_t at = 0; at < known_bytes; at += system_page) {
    unsigned char is_resident = 0;
    if (mincore((char *)start + at, system_page, &is_resident) == 0 && (is_resident & 1) != 0) resident += system_page;
  }
  fake_os_unlock();
  return resident;
}

bool hk_os_limits_addresses(void) {
  fake_os_lock();
  bool is_limited = memory.mapped_limit != 0;
  fake_os_unlock();
  return is_limited;
}

/* ---- fake_os.h. ------------------------------------------------------------------------------------------------- */

void fake_os_reset_memory(void) {
  memset(&memory, 0, sizeof(memory));
  memory.page_size = 4096;
  memory.peak_mapped_bytes = mapped_bytes;
}

void fake_os_limit_mapped(size_t bytes) {
  fake_os_lock();
  memory.mapped_limit = bytes;
  fake_os_unlock();
}

void fake_os_lock_memory(bool lock) { memory.is_locked = lock; }
size_t fake_os_locked_purge_bytes(void) { return memory.locked_purge_bytes; }

size_t fake_os_mapped_bytes(void) { return mapped_bytes; }
size_t fake_os_peak_mapped_bytes(void) { return memory.peak_mapped_bytes; }

bool fake_os_is_mapped(const void *start, size_t bytes) {
  fake_os_lock();
  bool is_mapped = mapped_within((uintptr_t)start, bytes) == bytes;
  fake_os_unlock();
  return is_mapped;
}

void fake_os_unmap_all(void) {
  fake_os_lock();
  while (range_count > 0) {
    range_t last = ranges[--range_count];
    munmap((void *)last.start, last.end - last.start);
  }
  mapped_bytes = 0;
  fake_os_unlock();
}

void fake_os_know_lazy_purge(bool is_known) { memory.is_lazy_unknown = !is_known; }
void fake_os_set_huge(int setting) { memory.huge_setting = setting; }
void fake_os_set_huge_fault(uint64_t cpu_ns) { memory.huge_fault_ns = cpu_ns; }
void fake_os_set_huge_collapse(uint64_t cpu_ns) { memory.huge_collapse_ns = cpu_ns; }
void fake_os_set_later_huge_fault(uint64_t calls, uint64_t cpu_ns) {
  memory.later_huge_fault_touch = memory.huge_touches + calls + 1;
  memory.later_huge_fault_ns = cpu_ns;
}
uintptr_t fake_os_huge_touched(void) { return memory.huge_touched; }
uint64_t fake_os_huge_touches(void) { return memory.huge_touches; }
void fake_os_set_page_size(size_t bytes) { memory.page_size = bytes; }
