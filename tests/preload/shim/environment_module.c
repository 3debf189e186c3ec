/* The work of environment.c in a library, for a namespace with a C library of its own. */
#include "../environment_work.h"

uint64_t do_environment_work(size_t live_bytes) { return environment_work(live_bytes); }
