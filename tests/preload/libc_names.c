/* The C library's allocation interface by its documented meaning: C23, POSIX 2024 and the glibc manual. */
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>

static const size_t sizes[] = {1, 16, 24, 1000, 1024, 1025, 5000, 32768, 32769, 200000, 1048576, 1048577, 5000000};
enum { size_count = sizeof sizes / sizeof *sizes };

/* Volatile, so that no compiler reasons about what malloc would do with them. */
static volatile size_t too_large[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX - 8};

/* Where the documents leave a choice, the test asks of hakmem alone what hakmem.h promises. */
static int is_hakmem;

static int is_aligned(const void *block, size_t alignment) { return (uintptr_t)block % alignment == 0; }

static void test_every_size(void) {
  for (int i = 0; i < size_count; ++i) {
    unsigned char *block = malloc(sizes[i]);
    CHECK(block != NULL && is_aligned(block, 16));
    CHECK(malloc_usable_size(block) >= sizes[i]);
    paint(block, malloc_usable_size(block), (unsigned)i);
    block = realloc(block, sizes[i] * 2 + 1);
    CHECK(block != NULL && is_painted(block, sizes[i], (unsigned)i));
    block = realloc(block, 1);
    CHECK(block != NULL && is_painted(block, 1, (unsigned)i));
    free(block);

    block = calloc(1, sizes[i]);
    CHECK(block != NULL && block[0] == 0 && memcmp(block, block + 1, sizes[i] - 1) == 0);
    paint(block, sizes[i], 3);
    free(block);
    block = calloc(sizes[i], 1); /* likely the same block, dirty */
    CHECK(block != NULL && block[0] == 0 && memcmp(block, block + 1, sizes[i] - 1) == 0);
    free(block);
  }
}

static void test_zero(void) {
  void *first = malloc(0), *second = malloc(0);
  CHECK(first != NULL && second != NULL && first != second);
  free(first);
  CHECK(realloc(second, 0) == NULL); /* freed, as glibc does */
  void *third = calloc(0, 8), *fourth = calloc(8, 0), *fifth = realloc(NULL, 0);
  CHECK(third != NULL && fourth != NULL && fifth != NULL);
  free(third);
  free(fourth);
  free(fifth);
  free(NULL);
  CHECK(malloc_usable_size(NULL) == 0);
}

static void test_too_large(void) {
  for (size_t i = 0; i < sizeof too_large / sizeof *too_large; ++i) {
    const size_t size = too_large[i];
    void *kept = malloc(100), *out = &out;
    CHECK((errno = 0, malloc(size)) == NULL && errno == ENOMEM);
    CHECK((errno = 0, calloc(1, size)) == NULL && errno == ENOMEM);
    CHECK((errno = 0, calloc(size, 1)) == NULL && errno == ENOMEM);
    CHECK((errno = 0, realloc(NULL, size)) == NULL && errno == ENOMEM);
    paint(kept, 100, 9);
    CHECK((errno = 0, realloc(kept, size)) == NULL && errno == ENOMEM);
    CHECK((errno = 0, reallocarray(kept, size, 1)) == NULL && errno == ENOMEM);
    CHECK(is_painted(kept, 100, 9));
    CHECK((errno = 0, memalign(64, size)) == NULL && errno == ENOMEM);
    CHECK((errno = 0, aligned_alloc(4096, size)) == NULL && errno == ENOMEM);
    CHECK((errno = 0, valloc(size)) == NULL && errno == ENOMEM);
    CHECK((errno = 0, pvalloc(size)) == NULL && errno == ENOMEM);
    errno = 17;
    CHECK(posix_memalign(&out, 64, size) == ENOMEM && out == (void *)&out && errno == ENOMEM);
    free(kept);
  }
}

static void test_overflow(void) {
  volatile size_t half = (SIZE_MAX >> 1) + 1, root = (size_t)1 << (sizeof(size_t) * 4);
  void *kept = malloc(40);
  paint(kept, 40, 5);
  CHECK((errno = 0, calloc(half, 2)) == NULL && errno == ENOMEM);
  CHECK((errno = 0, calloc(root, root)) == NULL && errno == ENOMEM);
  CHECK((errno = 0, calloc(half, 3)) == NULL && errno == ENOMEM);
  CHECK((errno = 0, reallocarray(kept, half, 2)) == NULL && errno == ENOMEM);
  CHECK((errno = 0, reallocarray(kept, root, root)) == NULL && errno == ENOMEM);
  CHECK(is_painted(kept, 40, 5));
  kept = reallocarray(kept, 10, 100);
  CHECK(kept != NULL && is_painted(kept, 40, 5) && malloc_usable_size(kept) >= 1000);
  free(kept);
}

static void test_alignment(void) {
  for (size_t alignment = 1; alignment <= 8 * MIB; alignment *= 2) {
    for (int i = 0; i < size_count; i += 3) {
      void *block = memalign(alignment, sizes[i]);
      CHECK(block != NULL && is_aligned(block, alignment) && malloc_usable_size(block) >= sizes[i]);
      paint(block, sizes[i], 1);
      block = realloc(block, sizes[i] + 3000);
      CHECK(block != NULL && is_painted(block, sizes[i], 1));
      free(block);
      block = aligned_alloc(alignment, sizes[i]);
      CHECK(block != NULL && is_aligned(block, alignment));
      free(block);
      if (alignment < sizeof(void *)) continue;
      CHECK(posix_memalign(&block, alignment, sizes[i]) == 0 && is_aligned(block, alignment));
      free(block);
    }
  }
}

static void test_wrong_alignment(void) {
  static volatile const size_t wrong[] = {0, 1, 2, 3, 4, 7, 12, 24, 100};
  void *out = &out;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    errno = 17;
    CHECK(posix_memalign(&out, wrong[i], 100) == EINVAL && out == (void *)&out && (!is_hakmem || errno == 17));
  }
  void *block = memalign(24, 100); /* glibc: the next power of two */
  CHECK(block != NULL && is_aligned(block, 32));
  free(block);
}

static void test_pages(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *block = valloc(100);
  CHECK(block != NULL && is_aligned(block, page));
  free(block);
  block = pvalloc(page + 1);
  CHECK(block != NULL && is_aligned(block, page) && malloc_usable_size(block) >= 2 * page);
  free(block);
}

static void test_errno_kept(void) {
  for (int i = 0; i < size_count; ++i) {
    void *block = malloc(sizes[i]);
    errno = 12345;
    free(block);
    CHECK(errno == 12345);
  }
  errno = 12345;
  free(NULL);
  CHECK(errno == 12345);
}

static size_t bytes_in_use(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static void test_sums(void) {
  enum { small_count = 20000, big_count = 20 };
  static void *blocks[small_count + big_count];
  const size_t before = bytes_in_use();
  const size_t expected = small_count * (size_t)100 + big_count * 500 * KIB;
  for (int i = 0; i < small_count + big_count; ++i) blocks[i] = malloc(i < small_count ? 100 : 500 * KIB);
  CHECK(bytes_in_use() >= before + expected && bytes_in_use() <= before + 2 * expected);
  for (int i = 0; i < small_count + big_count; ++i) free(blocks[i]);
  CHECK(bytes_in_use() < before + expected / 4);
  const struct mallinfo old = mallinfo();
  CHECK(old.uordblks >= 0 && old.hblkhd >= 0);
  const int trimmed = malloc_trim(0);
  CHECK(trimmed == 0 || trimmed == 1);
}

static void test_reports(const char *xml_path) {
  FILE *stream = fopen(xml_path, "w");
  CHECK(stream != NULL && malloc_info(0, stream) == 0 && fclose(stream) == 0);
  CHECK(malloc_info(1, stdout) == EINVAL);
  CHECK(mallopt(M_MMAP_THRESHOLD, 256 * 1024) == 1);
  CHECK(mallopt(M_ARENA_MAX, 2) == 1);
}

static void test_sized_free(void) {
  void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
  void (*aligned)(void *, size_t, size_t) = (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
  CHECK(!is_hakmem || (sized != NULL && aligned != NULL));
  if (sized == NULL || aligned == NULL) return; /* a C library older than C23 */
  for (int i = 0; i < size_count; ++i) {
    errno = 12345;
    sized(malloc(sizes[i]), sizes[i]);
    aligned(aligned_alloc(256, sizes[i]), 256, sizes[i]);
    CHECK(errno == 12345);
  }
  sized(NULL, 0);
  aligned(NULL, 16, 0);
}

static void test_cfree(void) {
  void (*cfree)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "cfree");
  if (cfree == NULL) return; /* glibc dropped it in 2.26 */
  cfree(malloc(100));
  cfree(NULL);
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  is_hakmem = dlsym(RTLD_DEFAULT, "hakmem_version") != NULL;
  test_every_size();
  test_zero();
  test_too_large();
  test_overflow();
  test_alignment();
  test_wrong_alignment();
  test_pages();
  test_errno_kept();
  test_sums();
  test_reports(argv[1]);
  test_sized_free();
  test_cfree();
  /* glibc takes aligned_alloc(24, n) before 2.38; ours follows C23. */
  CHECK(!is_hakmem || ((errno = 0, aligned_alloc(24, 100)) == NULL && errno == EINVAL));
  puts("ok");
  return 0;
}
