/* space/locked.h - L3. Address space for a program that locks its memory (mlockall). The system makes each new mapping
 * of such a program resident at once, so a superslab would cost all its 2 MiB for its first slab. */
#ifndef HK_SPACE_LOCKED_H
#define HK_SPACE_LOCKED_H

#include <stddef.h>

/* Maps a new range as hk_os_reserve does. No page of it is resident, even where the program locks its memory.
 * There, each page becomes resident and locked when it is touched. */
void *hk_locked_reserve(size_t bytes, size_t alignment);

#endif /* HK_SPACE_LOCKED_H */
