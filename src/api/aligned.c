/* api/aligned.c - L5. Blocks with more than the usual alignment. Blocks start at multiples of their size within a 64
 * KiB slab. So every block of a class whose size is a multiple of the alignment is aligned, and is an ordinary
 * block. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "api/alloc.h"
#include "base/arithmetic.h"
#include "base/bits.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "policy/size_class.h"

void *hk_alloc_aligned(size_t alignment, size_t size) {
  if (alignment <= HK_BLOCK_ALIGNMENT) return hk_alloc(size);
  unsigned class_index = hk_class_of_aligned(alignment, hk_block_bytes_for(size));
  if (class_index != 0) return hk_alloc_of_class(class_index, alignment, size);
  hk_count_request(size);
  bool is_zero;
  return size > 0 ? hk_alloc_large(size, alignment, &is_zero) : hk_alloc_large_empty(alignment);
}

/* Requires a power of two. */
static void *calloc_aligned(size_t alignment, size_t bytes) {
  if (alignment <= HK_BLOCK_ALIGNMENT) return hk_calloc(1, bytes);
  if (bytes == 0) return hk_alloc_aligned(alignment, 0);
  unsigned class_index = hk_class_of_aligned(alignment, hk_block_bytes_for(bytes));
  if (class_index == 0) {
    hk_count_request(bytes);
    return hk_calloc_large(bytes, alignment);
  }
  void *block = hk_alloc_of_class(class_index, alignment, bytes);
  return block != NULL ? memset(block, 0, bytes) : NULL;
}

static void *refuse(int error) {
  errno = error;
  return NULL;
}

int hakmem_posix_memalign(void **out, size_t alignment, size_t size) {
  if (!hk_is_power_of_two(alignment) || alignment % sizeof(void *) != 0) return EINVAL;
  int saved_errno = errno;
  void *block = hk_alloc_aligned(alignment, size);
  if (block == NULL) return ENOMEM; /* errno is ENOMEM too, as in glibc */
  errno = saved_errno;
  *out = block;
  return 0;
}

void *hakmem_aligned_alloc(size_t alignment, size_t size) {
  return hk_is_power_of_two(alignment) ? hk_alloc_aligned(alignment, size) : refuse(EINVAL);
}

void *hakmem_aligned_calloc(size_t alignment, size_t count, size_t size) {
  size_t bytes;
  if (!hk_is_power_of_two(alignment)) return refuse(EINVAL);
  return hk_multiply(count, size, &bytes) ? calloc_aligned(alignment, bytes) : hk_alloc_fail();
}

void *hakmem_memalign(size_t alignment, size_t size) {
  size_t power = alignment > 0 ? hk_next_power_of_two(alignment) : 1;
  return power != 0 ? hk_alloc_aligned(power, size) : refuse(EINVAL);
}

void *hakmem_valloc(size_t size) { return hk_alloc_aligned(hk_os_page_size(), size); }

void *hakmem_pvalloc(size_t size) {
  size_t page_bytes = hk_os_page_size();
  if (size > (size_t)PTRDIFF_MAX - page_bytes) return refuse(ENOMEM);
  return hk_alloc_aligned(page_bytes, hk_align_up(size > 0 ? size : 1, page_bytes));
}
