/* A reference to malloc, for every program that is linked with hakmem. It makes the linker take the C library's names
 * out of the archive, and keep the shared library under --as-needed, in a program that names none of them. */
#include <stdlib.h>

__attribute__((used)) static void *(*const hakmem_link)(size_t) = malloc;
