/* profile/unwind.h - L5. Who called: return addresses from the stack of the calling thread. */
#ifndef HK_PROFILE_UNWIND_H
#define HK_PROFILE_UNWIND_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Up to `most` return addresses, innermost first, without the first `skip`; how many. */
unsigned hk_unwind(uintptr_t *frames, unsigned most, unsigned skip);

HK_C_END

#endif /* HK_PROFILE_UNWIND_H */
