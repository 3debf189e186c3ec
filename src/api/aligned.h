/* api/aligned.h - L6. Blocks with more than the usual alignment. */
#ifndef HK_API_ALIGNED_H
#define HK_API_ALIGNED_H

#include <stddef.h>

/* `alignment` is a power of two. NULL with ENOMEM. */
void *hk_alloc_aligned(size_t alignment, size_t size);

#endif /* HK_API_ALIGNED_H */
