/* unwind/unwind.h - L6. Who called: the return addresses on the calling thread's stack. */
#ifndef HK_UNWIND_UNWIND_H
#define HK_UNWIND_UNWIND_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Stores up to `most` return addresses, the innermost first, without the `skip` first ones (0: the first is where the
 * caller of this goes on). Says how many there are. Where a signal handler runs, the interrupted frame counts as a call
 * that returns one byte behind the address that it was stopped at: so for every frame `address - 1` is in the
 * instruction.
 *
 * Takes no lock, allocates nothing, leaves errno; from any thread and signal handler. The same way through the program
 * gives the same addresses. A damaged stack ends the walk early. */
unsigned hk_unwind(uintptr_t *frames, unsigned most, unsigned skip);

HK_C_END

#endif /* HK_UNWIND_UNWIND_H */
