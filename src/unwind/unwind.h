/* unwind/unwind.h - L6. Finds the return addresses on the calling thread's stack. */
#ifndef HK_UNWIND_UNWIND_H
#define HK_UNWIND_UNWIND_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Stores up to `most` return addresses, the innermost first, without the first `skip`. With `skip` 0 the first is where
 * hk_unwind returns to. Returns their number. A frame that a signal has interrupted counts as a call that returns to
 * one byte behind its address: so `address - 1` lies in the instruction of every frame.
 *
 * Takes no lock, allocates nothing, leaves errno. Any thread and signal handler may call it. The same calls give the
 * same addresses. A damaged stack ends the walk early. */
unsigned hk_unwind(uintptr_t *frames, unsigned most, unsigned skip);

HK_C_END

#endif /* HK_UNWIND_UNWIND_H */
