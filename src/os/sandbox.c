/* os/sandbox.c - L1. See sandbox.h. */
#include "os/sandbox.h"

_Atomic(int) hk_sandbox_level;
_Atomic(bool) hk_sandbox_is_near;
