/* tests/misuse/attack_invalid_free.c - The free of an address where no block begins. The goal is a request that gets
 * memory in use, or memory of the attacker's choice. */
#include "attack.h"

/* Writes what glibc's malloc keeps before a block of `size` bytes, and before the one behind it. */
static void forge_header(byte_t *block, size_t size) {
  size_t chunk = (size + 8 + 15) & ~(size_t)15;
  ((uintptr_t *)block)[-2] = 0;
  ((uintptr_t *)block)[-1] = chunk | 1;
  ((uintptr_t *)(block + chunk))[-2] = 0;
  ((uintptr_t *)(block + chunk))[-1] = 0x21;
}

static bool requests_after(size_t size) { return requests_give_target(4 * some(size), size); }

/* Frees an address inside a block, whose memory looks to some allocators as if a block began there. */
static bool free_inside(size_t size, size_t offset) {
  take_many(3, size);
  byte_t *block = take(size);
  take_many(3, size);
  free(forget(block + offset));
  return requests_after(size);
}
static bool interior_1(size_t size) { return free_inside(size, 1); }
static bool interior_8(size_t size) { return free_inside(size, 8); }
static bool interior_16(size_t size) { return free_inside(size, 16); }
static bool interior_middle(size_t size) { return free_inside(size, (size / 2) & ~(size_t)15); }
static bool interior_page(size_t size) { return free_inside(size, 4096); }

static bool interior_forged(size_t size) {
  take_many(3, size);
  byte_t *block = take(size);
  size_t part = 128;
  forge_header(block + 64, part);
  free(forget(block + 64));
  return requests_give_target(100, part);
}

static bool one_past_end(size_t size) {
  byte_t *block = take_full(size);
  free(forget(block + full_size(size)));
  return requests_after(size);
}

/* A slot of a slab that no request has had. */
static bool never_allocated(size_t size) {
  byte_t *first = take(size), *second = take(size);
  ptrdiff_t stride = second - first;
  free(forget(second + 40 * stride));
  return requests_after(size);
}

static bool before_block(size_t size) {
  take_many(8, size);
  byte_t *block = take(size);
  free(forget(block - 16));
  return requests_after(size);
}

static bool of_stack(size_t size) {
  _Alignas(16) byte_t fake[4096] = {0};
  byte_t *block = fake + 64;
  forge_header(block, size);
  free(forget(block));
  for (int i = 0; i < 300; i++) {
    byte_t *got = take_raw(size);
    if (got >= fake && got < fake + sizeof fake) return true;
  }
  return false;
}

static byte_t *stack_of_other;
static void *lend_stack(void *size) {
  _Alignas(16) byte_t fake[4096] = {0};
  stack_of_other = fake + 64;
  forge_header(stack_of_other, *(size_t *)size);
  free(forget(stack_of_other));
  for (int i = 0; i < 300; i++) {
    byte_t *got = (byte_t *)malloc(*(size_t *)size);
    if (got >= fake && got < fake + sizeof fake) say_outcome("reached\n");
  }
  return NULL;
}
static bool of_thread_stack(size_t size) {
  in_thread(lend_stack, &size);
  return requests_after(size);
}

static bool of_static(size_t size) {
  byte_t *block = target + 4096 + 64;
  forge_header(block, size);
  free(forget(block));
  return requests_after(size);
}

static bool of_thread_local(size_t size) {
  static _Thread_local _Alignas(16) byte_t fake[4096];
  forge_header(fake + 64, size);
  free(forget(fake + 64));
  for (int i = 0; i < 300; i++) {
    byte_t *got = take_raw(size);
    if (got >= fake && got < fake + sizeof fake) return true;
  }
  return false;
}

static bool of_mapping(size_t size) {
  size_t length = (size_t)4 << 20;
  byte_t *map = (byte_t *)mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == (byte_t *)MAP_FAILED) _exit(91);
  byte_t *block = map + length / 2 + 64;
  forge_header(block, size);
  free(forget(block));
  for (int i = 0; i < 300; i++) {
    byte_t *got = take_raw(size);
    if (got >= map && got < map + length) return true;
  }
  return false;
}

/* A mapping at an address that masks of large alignments leave alone: some find their data there. */
static bool of_aligned_mapping(size_t size) {
  size_t length = (size_t)128 << 20;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  byte_t *map = (byte_t *)mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == (byte_t *)MAP_FAILED) _exit(91);
  byte_t *block = (byte_t *)(((uintptr_t)map + length / 2) & ~(((uintptr_t)64 << 20) - 1)) + 65536;
  free(forget(block));
  for (int i = 0; i < 300; i++) {
    byte_t *got = take_raw(size);
    if (got >= map && got < map + length) return true;
  }
  return false;
}

static bool of_code(size_t size) {
  free(forget((void *)(uintptr_t)of_code));
  return requests_after(size);
}

/* The data of the library that has malloc itself. */
static bool of_allocator(size_t size) {
  Dl_info found;
  if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &found) == 0) return false;
  free(forget((byte_t *)found.dli_fbase + 4096));
  return requests_after(size);
}

static bool of_environment(size_t size) {
  extern char **environ;
  free(forget(environ[0]));
  return requests_after(size);
}

static bool of_number(size_t size) {
  free((void *)(uintptr_t)0x1230);
  return requests_after(size);
}

static bool of_tagged(size_t size) {
  byte_t *block = take(size);
  free(forget((void *)((uintptr_t)block | (uintptr_t)0xab << 56)));
  return requests_after(size);
}

static bool of_unmapped(size_t size) {
  void *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  (void)munmap(map, 65536);
  free(forget((byte_t *)map + 256));
  return requests_after(size);
}

/* The start of the slab, by the addresses that allocators align slabs to. */
static bool of_slab_start(size_t size) {
  take_many(100, size);
  byte_t *start = (byte_t *)((uintptr_t)live[50].start & ~(uintptr_t)0xffff);
  for (size_t i = 0; i < live_count; i++) {
    if (live[i].start == start) return false; /* a block of the program's: the free is a right one */
  }
  free(forget(start));
  return requests_after(size);
}

static bool inside_freed(size_t size) {
  take_many(3, size);
  byte_t *block = take(size);
  take_many(3, size);
  drop(block);
  free(forget(block + 16));
  return requests_after(size);
}

static bool inside_by_thread(size_t size) {
  byte_t *block = take(size);
  in_thread(free_once, block + 16);
  return requests_after(size);
}

static bool realloc_inside(size_t size) {
  take_many(3, size);
  byte_t *block = take(size);
  byte_t *moved = (byte_t *)realloc(forget(block + 16), 4 * size);
  if (moved != NULL) live[live_count++] = (struct live){moved, 4 * size};
  return requests_after(size);
}

static bool realloc_of_static(size_t size) {
  byte_t *block = target + 4096 + 64;
  forge_header(block, size);
  byte_t *moved = (byte_t *)realloc(forget(block), size);
  return (moved != NULL && is_target(moved)) || requests_after(size);
}

ATTACKS({"interior_1", interior_1}, {"interior_8", interior_8}, {"interior_16", interior_16},
        {"interior_middle", interior_middle}, {"interior_page", interior_page}, {"interior_forged", interior_forged},
        {"one_past_end", one_past_end}, {"never_allocated", never_allocated}, {"before_block", before_block},
        {"of_stack", of_stack}, {"of_thread_stack", of_thread_stack}, {"of_static", of_static},
        {"of_thread_local", of_thread_local}, {"of_mapping", of_mapping}, {"of_aligned_mapping", of_aligned_mapping},
        {"of_code", of_code}, {"of_allocator", of_allocator}, {"of_environment", of_environment},
        {"of_number", of_number}, {"of_tagged", of_tagged}, {"of_unmapped", of_unmapped},
        {"of_slab_start", of_slab_start}, {"inside_freed", inside_freed}, {"inside_by_thread", inside_by_thread},
        {"realloc_inside", realloc_inside}, {"realloc_of_static", realloc_of_static})
