/* tests/preload/supervised.h - messages of a program to refuse_nth, by system calls that no kernel has. Without a
 * supervisor they do nothing. */
#ifndef PRELOAD_SUPERVISED_H
#define PRELOAD_SUPERVISED_H

#include "raw_call.h"

enum { mark_of_the_end = 60001 };

/* Ends the refusals: from here on every request must succeed. */
static inline void end_refusals(void) { (void)raw_call(mark_of_the_end, 0, 0, 0, 0); }

#endif /* PRELOAD_SUPERVISED_H */
