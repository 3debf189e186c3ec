/* override/libc.c - L11. The C library's names. malloc, free and malloc_usable_size contain the same inline code as
 * their hakmem_ counterparts, so a call of malloc is one call. The rarer ones call a function.
 *
 * A program that is linked with the archive may define some names itself, such as reallocarray where it supports older
 * C libraries. So all are weak there but malloc, calloc, realloc, free and posix_memalign, which need each other's
 * blocks. hakmem itself calls none of them by its public name.
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
#if HK_WEAK_RUNTIME /* a shared library, whose names give way to the program's anyway */
#define EXTRA EXPORT
#else
#define EXTRA __attribute__((visibility("default"), weak))
#endif

/* C23's names, and those that glibc has without a declaration. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
void cfree(void *block);
void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);

/* Here, so that a program which links the C library's names from libhakmem.a has it, and one that takes only hakmem_
 * names out of the archive has not. */
__attribute__((constructor)) static void serve(void) { hk_serve_prepare(); }

EXPORT void *malloc(size_t size) { return hk_alloc(size); }
EXPORT void free(void *block) { hk_free(block); }
EXTRA void free_sized(void *block, size_t size) { hk_free_sized(block, size); }
EXTRA void free_aligned_sized(void *block, size_t alignment, size_t size) {
  hk_free_aligned_sized(block, alignment, size);
}
EXPORT void *calloc(size_t count, size_t size) { return hk_calloc(count, size); }

#if HK_ON_MUSL
/* musl's realloc and reallocarray to size 0 give a block of its own, where glibc's free the block and return NULL. */
EXPORT void *realloc(void *block, size_t size) { return hk_realloc(block, size == 0 ? 1 : size); }
EXTRA void *reallocarray(void *block, size_t count, size_t size) {
  return count == 0 || size == 0 ? hk_realloc(block, 1) : hakmem_reallocarray(block, count, size);
}
#else
EXPORT void *realloc(void *block, size_t size) { return hk_realloc(block, size); }
EXTRA void *reallocarray(void *block, size_t count, size_t size) { return hakmem_reallocarray(block, count, size); }
#endif

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  return hakmem_posix_memalign(out, alignment, size);
}
EXTRA void *aligned_alloc(size_t alignment, size_t size) { return hakmem_aligned_alloc(alignment, size); }
EXTRA void *memalign(size_t alignment, size_t size) { return hakmem_memalign(alignment, size); }
EXTRA void *valloc(size_t size) { return hakmem_valloc(size); }

EXTRA size_t malloc_usable_size(void *block) { return hk_usable_size(block); }

#if !HK_ON_MUSL
EXTRA void cfree(void *block) { hk_free(block); }
EXTRA void *pvalloc(size_t size) { return hakmem_pvalloc(size); }
EXTRA int malloc_trim(size_t pad) { return hakmem_malloc_trim(pad); }
EXTRA struct mallinfo mallinfo(void) { return hakmem_mallinfo(); }
EXTRA struct mallinfo2 mallinfo2(void) { return hakmem_mallinfo2(); }
EXTRA int malloc_info(int options, FILE *stream) { return hakmem_malloc_info(options, stream); }
EXTRA void malloc_stats(void) { hakmem_malloc_stats(); }
EXTRA int mallopt(int parameter, int value) { return hakmem_mallopt(parameter, value); }
#endif

#if HK_WEAK_RUNTIME && !HK_ON_MUSL
/* The names by which a program that wraps malloc calls the C library's own. It wraps few functions, as a rule, and
 * frees by these names what it has from the others. An archive has none of them: a program that is linked statically
 * gets them from the file of the C library that defines malloc too. The shared libraries of a dynamic program with the
 * archive call the C library's (docs/limits.md). */
EXPORT void *__libc_malloc(size_t size) { return hakmem_malloc(size); }
EXPORT void __libc_free(void *block) { hakmem_free(block); }
EXPORT void *__libc_calloc(size_t count, size_t size) { return hakmem_calloc(count, size); }
EXPORT void *__libc_realloc(void *block, size_t size) { return hakmem_realloc(block, size); }
EXPORT void *__libc_memalign(size_t alignment, size_t size) { return hakmem_memalign(alignment, size); }
EXPORT void *__libc_valloc(size_t size) { return hakmem_valloc(size); }
EXPORT void *__libc_pvalloc(size_t size) { return hakmem_pvalloc(size); }
#endif
