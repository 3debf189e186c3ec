/* A reference to malloc, for every program that is linked with hakmem. It makes the linker take the C library's names
 * out of the archive, and keep the shared library under --as-needed, in a program that names none of them. */
#include <stdlib.h>

/* Keeps the reference under --gc-sections too: GNU ld keeps such data anyway, lld does not. */
#if defined(__has_attribute)
#if __has_attribute(retain)
#define HAKMEM_RETAIN __attribute__((retain))
#endif
#endif
#ifndef HAKMEM_RETAIN
#define HAKMEM_RETAIN
#endif

HAKMEM_RETAIN __attribute__((used)) static void *(*const hakmem_link)(size_t) = malloc;
