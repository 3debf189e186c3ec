/* os/alternate_stack.h - L1. A second stack for a thread's signal handlers, which have none to run on when the first is full. */
#ifndef HK_OS_ALTERNATE_STACK_H
#define HK_OS_ALTERNATE_STACK_H

/* Gives the calling thread one, unless it has one already. Where the system refuses it has none. */
void hk_alternate_stack_begin(void);

/* Takes it away again, before the thread ends. One that the program has put in its place since stays. */
void hk_alternate_stack_end(void);

#endif /* HK_OS_ALTERNATE_STACK_H */
