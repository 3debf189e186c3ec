/* api/control.c - L5. Calls that control the allocator: purging, glibc's tuning parameters and sums, the version. */
#include <limits.h>

#include "api/process_purge.h"
#include "base/arithmetic.h"
#include "hakmem/hakmem.h"
#include "space/large.h"
#include "space/superslab.h"

size_t hakmem_collect(void) { return hk_process_purge_everywhere(0); }

int hakmem_malloc_trim(size_t pad) { return hk_process_purge_everywhere(pad) > 0; }

/* Accepts glibc's parameters without effect: M_MXFAST (1) to M_KEEP (4), and M_TRIM_THRESHOLD (-1) down to M_ARENA_MAX
 * (-8). The numbers stand here because musl's headers name none. */
int hakmem_mallopt(int parameter, int value) {
  (void)value;
  return (parameter >= 1 && parameter <= 4) || (parameter <= -1 && parameter >= -8);
}

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *hakmem_version(void) {
  return VERSION_TEXT(HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH);
}

struct mallinfo2 hakmem_mallinfo2(void) {
  hk_superslab_usage_t slabs = hk_superslab_usage();
  hk_large_usage_t large = hk_large_usage();
  return (struct mallinfo2){
      .arena = slabs.mapped_bytes,
      .ordblks = slabs.dirty_bytes / HK_SLAB_BYTES,
      .hblks = large.count,
      .hblkhd = large.mapped_bytes,
      .uordblks = slabs.in_use_bytes,
      /* The sums are of different moments: other threads may have unmapped slabs that were in use. */
      .fordblks = hk_subtract_to_zero(slabs.mapped_bytes, slabs.in_use_bytes),
      .keepcost = slabs.dirty_bytes,
  };
}

static int saturate(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

struct mallinfo hakmem_mallinfo(void) {
  struct mallinfo2 wide = hakmem_mallinfo2();
  return (struct mallinfo){
      .arena = saturate(wide.arena),
      .ordblks = saturate(wide.ordblks),
      .hblks = saturate(wide.hblks),
      .hblkhd = saturate(wide.hblkhd),
      .uordblks = saturate(wide.uordblks),
      .fordblks = saturate(wide.fordblks),
      .keepcost = saturate(wide.keepcost),
  };
}
