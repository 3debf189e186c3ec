/* hakmem: a general-purpose memory allocator for Linux. The public C interface.
 *
 * Every function here may be called from any thread at any time after the program's first instruction, before `main`,
 * in thread-exit destructors and in the child of `fork`. None may be called from a signal handler that interrupted one.
 * Sizes are in bytes. Blocks are aligned to 16 bytes at least. Requests above PTRDIFF_MAX fail with ENOMEM.
 *
 * Linked or preloaded, the library also defines the C library's own names (`malloc`, `free`, ...) and the C++ operators
 * `new` and `delete`: a program needs this header only for what the C library has no name for.
 */
#ifndef HAKMEM_HAKMEM_H
#define HAKMEM_HAKMEM_H

#include <malloc.h> /* struct mallinfo, struct mallinfo2 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 1
#define HAKMEM_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

#define HAKMEM_EXPORT __attribute__((visibility("default")))
#if defined(__cplusplus)
#define HAKMEM_NOEXCEPT noexcept
#else
#define HAKMEM_NOEXCEPT
#endif

/* ---- The C library's interface under names of our own: C23, POSIX 2024 and the glibc manual. ------------------- */

/* At least `size` bytes, or NULL with errno ENOMEM. Size 0 gives a block of its own, never NULL for that reason. */
HAKMEM_EXPORT void *hakmem_malloc(size_t size) HAKMEM_NOEXCEPT;

/* Gives a block back. NULL is ignored. Never changes errno. A pointer that is no live block's start is misuse: see
 * HAKMEM_ON_MISUSE in docs/options.md and docs/errors.md. */
HAKMEM_EXPORT void hakmem_free(void *block) HAKMEM_NOEXCEPT;

/* `count * size` bytes, all zero; NULL with ENOMEM also when the product overflows. */
HAKMEM_EXPORT void *hakmem_calloc(size_t count, size_t size) HAKMEM_NOEXCEPT;

/* Changes a block's size, moving it where it must; contents are kept up to the smaller size. `realloc(NULL, n)` is
 * `malloc(n)`. `realloc(p, 0)` frees p and gives NULL, as glibc does. On failure NULL with ENOMEM, and p stays
 * valid. */
HAKMEM_EXPORT void *hakmem_realloc(void *block, size_t size) HAKMEM_NOEXCEPT;

/* `realloc(block, count * size)`, NULL with ENOMEM when the product overflows (the block stays valid). */
HAKMEM_EXPORT void *hakmem_reallocarray(void *block, size_t count, size_t size) HAKMEM_NOEXCEPT;

/* Stores an aligned block in `*out`. 0, EINVAL (alignment no power of two or no multiple of sizeof(void *)) or ENOMEM;
 * `*out` is untouched on failure, errno always. */
HAKMEM_EXPORT int hakmem_posix_memalign(void **out, size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* An aligned block. NULL with EINVAL when `alignment` is no power of two, NULL with ENOMEM. `size` need not be a
 * multiple of `alignment` (C17 DR 460, C23). */
HAKMEM_EXPORT void *hakmem_aligned_alloc(size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* As aligned_alloc, but an alignment that is no power of two is rounded up to the next one, as glibc does. */
HAKMEM_EXPORT void *hakmem_memalign(size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* A block aligned to an OS page; pvalloc also rounds the size up to whole pages. */
HAKMEM_EXPORT void *hakmem_valloc(size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void *hakmem_pvalloc(size_t size) HAKMEM_NOEXCEPT;

/* How many bytes of the block may be used: at least what was asked for, the same for the block's whole life (until a
 * realloc). 0 for NULL. */
HAKMEM_EXPORT size_t hakmem_malloc_usable_size(void *block) HAKMEM_NOEXCEPT;

/* C23 sized frees: `size` (and `alignment`) as they were requested. */
HAKMEM_EXPORT void hakmem_free_sized(void *block, size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void hakmem_free_aligned_sized(void *block, size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* Old name of free. */
HAKMEM_EXPORT void hakmem_cfree(void *block) HAKMEM_NOEXCEPT;

/* Gives idle memory back to the system. `pad` bytes may stay for the next requests. 1 when any was given back. */
HAKMEM_EXPORT int hakmem_malloc_trim(size_t pad) HAKMEM_NOEXCEPT;

/* Sums as glibc's manual names them; docs/stats.md says what each field means here. The older form saturates at
 * INT_MAX. */
HAKMEM_EXPORT struct mallinfo hakmem_mallinfo(void) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT struct mallinfo2 hakmem_mallinfo2(void) HAKMEM_NOEXCEPT;

/* Writes the statistics as XML to `stream`. `options` must be 0: otherwise EINVAL is returned. */
HAKMEM_EXPORT int hakmem_malloc_info(int options, FILE *stream) HAKMEM_NOEXCEPT;

/* Writes a readable summary to stderr. */
HAKMEM_EXPORT void hakmem_malloc_stats(void) HAKMEM_NOEXCEPT;

/* Accepted so that programs run unchanged: glibc's parameters have no meaning here. 1 for a known one, 0 otherwise. */
HAKMEM_EXPORT int hakmem_mallopt(int parameter, int value) HAKMEM_NOEXCEPT;

/* ---- What the C library has no name for. ----------------------------------------------------------------------- */

/* The usable size that a block of `size` bytes would have: asking for that much costs nothing more. */
HAKMEM_EXPORT size_t hakmem_good_size(size_t size) HAKMEM_NOEXCEPT;

/* Whether `address` is the start of a block that hakmem handed out and that was, as far as can be seen, not freed
 * since. Any value may be asked for, foreign, unmapped or NULL; nothing outside hakmem's memory is read. */
HAKMEM_EXPORT bool hakmem_check_owned(const void *address) HAKMEM_NOEXCEPT;

/* Takes back what other threads freed, and gives all idle memory back to the system. Bytes given back. */
HAKMEM_EXPORT size_t hakmem_collect(void) HAKMEM_NOEXCEPT;

/* "MAJOR.MINOR.PATCH"; a string constant. */
HAKMEM_EXPORT const char *hakmem_version(void) HAKMEM_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* HAKMEM_HAKMEM_H */
