/* os/alternate_stack.h - L1. A second stack for a thread's signal handlers, which need one when the first is full. */
#ifndef HK_OS_ALTERNATE_STACK_H
#define HK_OS_ALTERNATE_STACK_H

/* Gives the calling thread an alternate stack unless it has one. Does nothing where the system refuses. */
void hk_alternate_stack_begin(void);

/* Removes and unmaps that stack. Called before the thread ends. A stack that the program has set since then stays. */
void hk_alternate_stack_end(void);

#endif /* HK_OS_ALTERNATE_STACK_H */
