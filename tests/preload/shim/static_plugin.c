/* A plugin that brings its own allocator: linked with libhakmem.a, into a program that has another. See
 * plugin_loop.c. */
#include <stdbool.h>
#include <stdlib.h>

bool hakmem_check_owned(const void *address);

void *plugin_allocate(size_t size) { return malloc(size); }
void plugin_release(void *block) { free(block); }
int plugin_owns(const void *address) { return hakmem_check_owned(address); }
