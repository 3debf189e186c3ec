/* space/locked.h - L3. Memory of a program that locks its memory (mlockall): the system makes each new mapping resident
 * at once, and a superslab would cost all its 2 MiB for the first slab that is used of it. */
#ifndef HK_SPACE_LOCKED_H
#define HK_SPACE_LOCKED_H

#include <stddef.h>

/* A new range, as hk_os_reserve: nothing of it is resident, also where the program's memory is locked. What is touched
 * of it stays locked then. */
void *hk_locked_reserve(size_t bytes, size_t alignment);

#endif /* HK_SPACE_LOCKED_H */
