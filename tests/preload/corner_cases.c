/* What the interface answers at its corners, a line each: result, errno, alignment. Under glibc and under the library
 * the text is the same. */
#include "check.h"

#include <malloc.h>

/* Left by calls that do not fail. */
enum { untouched = 77 };

/* Volatile, so that no compiler reasons about what malloc would do with them. */
static const volatile size_t sizes[] = {0,
                                        1,
                                        15,
                                        4095,
                                        4096,
                                        4097,
                                        100000,
                                        3000000,
                                        SIZE_MAX / 2 - 1000000,
                                        SIZE_MAX / 2 - 8192,
                                        SIZE_MAX / 2 - 4096,
                                        SIZE_MAX / 2 - 100,
                                        SIZE_MAX / 2 - 1,
                                        SIZE_MAX / 2,
                                        SIZE_MAX / 2 + 1,
                                        SIZE_MAX / 2 + 2,
                                        SIZE_MAX - 1000000,
                                        SIZE_MAX - 8192,
                                        SIZE_MAX - 4096,
                                        SIZE_MAX - 4095,
                                        SIZE_MAX - 15,
                                        SIZE_MAX - 1,
                                        SIZE_MAX};
static const volatile size_t alignments[] = {0,
                                             1,
                                             2,
                                             3,
                                             4,
                                             7,
                                             8,
                                             9,
                                             12,
                                             16,
                                             17,
                                             24,
                                             31,
                                             32,
                                             48,
                                             64,
                                             100,
                                             4096,
                                             4097,
                                             6144,
                                             65536,
                                             100000,
                                             (size_t)1 << 20,
                                             (size_t)1 << 21,
                                             ((size_t)1 << 21) + 1,
                                             (size_t)1 << 26,
                                             (size_t)1 << 62,
                                             ((size_t)1 << 62) + 1,
                                             SIZE_MAX / 2,
                                             SIZE_MAX / 2 + 1,
                                             SIZE_MAX / 2 + 2,
                                             SIZE_MAX};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *error_name(int error) {
  return error == 0           ? "0"
         : error == untouched ? "untouched"
         : error == ENOMEM    ? "ENOMEM"
         : error == EINVAL    ? "EINVAL"
                              : "other";
}

/* The block is aligned, and all requested bytes can be written to. */
static void say_block(unsigned char *block, size_t alignment, size_t size) {
  const char *error = error_name(errno);
  if (block == NULL) {
    printf("NULL %s\n", error);
    return;
  }
  if (size > 0) block[0] = block[size - 1] = 1;
  const int is_usable = malloc_usable_size(block) >= size;
  printf("block %s %s %s\n", error, (uintptr_t)block % alignment == 0 ? "aligned" : "not aligned",
         is_usable ? "usable" : "too small");
  free(block);
}

static size_t power_above(size_t alignment) {
  size_t power = 16;
  while (power < alignment && power <= SIZE_MAX / 4) power *= 2;
  return power;
}

typedef void *aligned_t(size_t alignment, size_t size);

/* An alignment that is no power of two is the next one to memalign. glibc 2.38 refuses it in aligned_alloc. */
static void try_aligned(const char *name, aligned_t *allocate, int takes_any) {
  for (size_t i = 0; i < COUNT(alignments); ++i) {
    const size_t alignment = alignments[i];
    if (!takes_any && (alignment == 0 || (alignment & (alignment - 1)) != 0)) continue;
    for (size_t j = 0; j < COUNT(sizes); ++j) {
      printf("%s %#zx %#zx: ", name, alignment, sizes[j]);
      errno = untouched;
      say_block(allocate(alignment, sizes[j]), power_above(alignment), sizes[j]);
    }
  }
}

static void try_posix_memalign(void) {
  for (size_t i = 0; i < COUNT(alignments); ++i) {
    for (size_t j = 0; j < COUNT(sizes); ++j) {
      void *block = (void *)&block;
      printf("posix_memalign %#zx %#zx: ", alignments[i], sizes[j]);
      errno = untouched;
      const int result = posix_memalign(&block, alignments[i], sizes[j]);
      if (result != 0) {
        printf("%s %s%s\n", error_name(result), error_name(errno),
               block == (void *)&block ? "" : ", and the pointer has changed");
      } else {
        say_block(block, power_above(alignments[i]), sizes[j]);
      }
    }
  }
}

static void try_pages(void) {
  for (size_t j = 0; j < COUNT(sizes); ++j) {
    printf("valloc %#zx: ", sizes[j]);
    errno = untouched;
    say_block(valloc(sizes[j]), 4096, sizes[j]);
    printf("pvalloc %#zx: ", sizes[j]);
    errno = untouched;
    say_block(pvalloc(sizes[j]), 4096, sizes[j] <= SIZE_MAX / 2 ? (sizes[j] + 4095) / 4096 * 4096 : sizes[j]);
  }
}

/* A block that could not be resized stays. One that was made nothing is gone, and nothing comes of it. */
static void resize(const char *name, size_t before, size_t count, size_t size) {
  unsigned char *block = before == SIZE_MAX ? NULL : malloc(before);
  if (block != NULL && before > 0) block[0] = 5;
  printf("%s %#zx to %#zx * %#zx: ", name, before, count, size);
  errno = untouched;
  unsigned char *moved = strcmp(name, "realloc") == 0 ? realloc(block, size) : reallocarray(block, count, size);
  const int error = errno;
  const int is_freed = moved == NULL && block != NULL && error == untouched;
  if (moved == NULL && block != NULL && !is_freed) {
    printf(before == 0 || block[0] == 5 ? "kept " : "lost ");
    free(block);
  }
  if (is_freed) printf("freed ");
  if (moved != NULL && block != NULL && before > 0 && moved[0] != 5) printf("lost ");
  errno = error;
  say_block(moved, 16, moved != NULL ? count * size : 0);
}

static void try_realloc(void) {
  static const volatile size_t befores[] = {SIZE_MAX /* NULL */, 0, 1, 5000, 200000, 3000000};
  static const volatile size_t counts[] = {0,       1, 2, 1000, (size_t)1 << 32, ((size_t)1 << 32) + 1, SIZE_MAX / 2,
                                           SIZE_MAX};
  static const volatile size_t units[] = {0, 1, 24, 1000, (size_t)1 << 31, (size_t)1 << 32, SIZE_MAX / 2, SIZE_MAX};
  for (size_t i = 0; i < COUNT(befores); ++i) {
    for (size_t j = 0; j < COUNT(sizes); ++j) resize("realloc", befores[i], 1, sizes[j]);
    for (size_t j = 0; j < COUNT(counts); ++j) {
      for (size_t k = 0; k < COUNT(units); ++k) {
        size_t bytes;
        if (!__builtin_mul_overflow(counts[j], units[k], &bytes) && bytes > 8000000 && bytes < SIZE_MAX / 2 - 10000000)
          continue;
        resize("reallocarray", befores[i], counts[j], units[k]);
      }
    }
  }
}

static void try_calloc(void) {
  for (size_t i = 0; i < COUNT(sizes); ++i) {
    printf("malloc %#zx: ", sizes[i]);
    errno = untouched;
    say_block(malloc(sizes[i]), 16, sizes[i]);
    for (size_t count = 0; count < 4; ++count) {
      size_t bytes;
      const int is_too_much = __builtin_mul_overflow(count, sizes[i], &bytes);
      printf("calloc %zu * %#zx: ", count, sizes[i]);
      errno = untouched;
      say_block(calloc(count, sizes[i]), 16, is_too_much ? 0 : bytes);
    }
  }
  errno = untouched;
  free(NULL);
  free(malloc(3000000));
  printf("free: %s\n", error_name(errno));
  printf("malloc_usable_size of NULL: %zu\n", malloc_usable_size(NULL));
}

int main(void) {
  try_aligned("memalign", memalign, 1);
  try_aligned("aligned_alloc", aligned_alloc, 0);
  try_posix_memalign();
  try_pages();
  try_realloc();
  try_calloc();
  return 0;
}
