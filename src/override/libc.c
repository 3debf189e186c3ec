/* override/libc.c - L11. The C library's names. malloc, free and malloc_usable_size contain the same inline code as
 * their hakmem_ counterparts, so a call of malloc is one call. The rarer ones call a function.
 *
 * musl takes an allocator in place of its own when malloc, calloc, realloc, free, aligned_alloc, posix_memalign,
 * memalign and malloc_usable_size are all replaced. In an archive they share this file, so that a program gets all of
 * them or none. */
#include <malloc.h>
#include <stdlib.h>

#include "api/alloc.h"
#include "api/instruments.h"
#include "hakmem/hakmem.h"
#include "os/c_library.h"

#define EXPORT __attribute__((visibility("default")))

/* C23's names, and one that glibc has without a declaration. */
EXPORT void free_sized(void *block, size_t size);
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size);
EXPORT void cfree(void *block);

/* Here, so that a program which links the C library's names from libhakmem.a has it, and one that takes only hakmem_
 * names out of the archive has not. */
__attribute__((constructor)) static void serve(void) { hk_serve_prepare(); }

EXPORT void *malloc(size_t size) { return hk_alloc(size); }
EXPORT void free(void *block) { hk_free(block); }
EXPORT void free_sized(void *block, size_t size) { hk_free_sized(block, size); }
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
  hk_free_aligned_sized(block, alignment, size);
}
EXPORT void *calloc(size_t count, size_t size) { return hk_calloc(count, size); }

#if HK_ON_MUSL
/* musl's realloc and reallocarray to size 0 give a block of its own, where glibc's free the block and return NULL. */
EXPORT void *realloc(void *block, size_t size) { return hk_realloc(block, size == 0 ? 1 : size); }
EXPORT void *reallocarray(void *block, size_t count, size_t size) {
  return count == 0 || size == 0 ? hk_realloc(block, 1) : hakmem_reallocarray(block, count, size);
}
#else
EXPORT void *realloc(void *block, size_t size) { return hk_realloc(block, size); }
EXPORT void *reallocarray(void *block, size_t count, size_t size) { return hakmem_reallocarray(block, count, size); }
#endif

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  return hakmem_posix_memalign(out, alignment, size);
}
EXPORT void *aligned_alloc(size_t alignment, size_t size) { return hakmem_aligned_alloc(alignment, size); }
EXPORT void *memalign(size_t alignment, size_t size) { return hakmem_memalign(alignment, size); }
EXPORT void *valloc(size_t size) { return hakmem_valloc(size); }

EXPORT size_t malloc_usable_size(void *block) { return hk_usable_size(block); }

#if !HK_ON_MUSL
EXPORT void cfree(void *block) { hk_free(block); }
EXPORT void *pvalloc(size_t size) { return hakmem_pvalloc(size); }
EXPORT int malloc_trim(size_t pad) { return hakmem_malloc_trim(pad); }
EXPORT struct mallinfo mallinfo(void) { return hakmem_mallinfo(); }
EXPORT struct mallinfo2 mallinfo2(void) { return hakmem_mallinfo2(); }
EXPORT int malloc_info(int options, FILE *stream) { return hakmem_malloc_info(options, stream); }
EXPORT void malloc_stats(void) { hakmem_malloc_stats(); }
EXPORT int mallopt(int parameter, int value) { return hakmem_mallopt(parameter, value); }
#endif
