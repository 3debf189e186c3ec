/* os/process.h - L1. A mark that tells the process from all others that read the same variables: its ancestors by fork,
 * and children of vfork, which borrow its memory. For things that one process alone may own or do.
 *
 * The process's number is not enough: a child that is the first of a pid namespace has the number 1, as its parent may
 * have.
 */
#ifndef HK_OS_PROCESS_H
#define HK_OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns the calling process's mark, never 0. No ancestor by fork of any kind has the same; nor has a child of vfork,
 * unless both are the first of their pid namespaces. Safe in signal handlers. */
uint64_t hk_process_mark(void);

/* Notes the calling process as the one that the memory belongs to. Called at the start and in each child of fork. */
void hk_process_note(void);

/* Returns whether the calling process is a child that borrows its parent's memory (vfork). False before the first note,
 * and where both are the first of their pid namespaces. */
bool hk_process_borrows_memory(void);

HK_C_END

#endif /* HK_OS_PROCESS_H */
