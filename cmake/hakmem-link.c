/* What each program has in it that is linked with hakmem: a reference to malloc. By it the linker takes the C library's
 * names out of the archive, and keeps the shared library under --as-needed, in a program that names none of them. */
#include <stdlib.h>

__attribute__((used)) static void *(*const hakmem_link)(size_t) = malloc;
