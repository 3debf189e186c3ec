/* csrc/crate.c - the part of the library that only the crate has: what src/sys.rs declares beyond hakmem/hakmem.h. It
 * includes internal headers as src/serve does, which is its place among the layers.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/instruments.h"
#include "hakmem/hakmem.h"
#include "inspect/profile.h"
#include "pprof/output.h"
#include "pprof/pprof.h"

/* ---- Every program with the crate refers to hakmem_crate_link, so that the linker takes this file. */

void *(*hakmem_crate_link(void))(size_t);

#if HK_CRATE_OVERRIDES
/* The reference makes the linker take the C library's names (override/libc.c), in a program that calls none of them. */
static void *(*volatile const linked)(size_t) = malloc;
#else
/* Otherwise the constructor of override/libc.c is absent. The command line tool needs it. */
__attribute__((constructor)) static void serve(void) { hk_serve_prepare(); }
static void *(*volatile const linked)(size_t) = hakmem_malloc;
#endif

void *(*hakmem_crate_link(void))(size_t) { return linked; }

/* ---- The heap profile. */

bool hakmem_crate_profile_is_running(void);
int hakmem_crate_profile_write(bool (*put)(void *context, const void *bytes, size_t count), void *context);

typedef struct {
  hk_output_t output;
  bool (*put)(void *context, const void *bytes, size_t count);
  void *context;
} receiver_t;

static bool receive(hk_output_t *output, const void *bytes, size_t count) {
  receiver_t *receiver = HK_CONTAINER_OF(output, receiver_t, output);
  return receiver->put(receiver->context, bytes, count);
}

bool hakmem_crate_profile_is_running(void) { return hk_profile_is_running(); }

/* Puts the profile as gzipped profile.proto. Returns 0, 1 when no profile was started in this process, or 2 when `put`
 * returned false or the system had no memory. `put` may allocate: no lock is held. */
int hakmem_crate_profile_write(bool (*put)(void *context, const void *bytes, size_t count), void *context) {
  hk_profile_facts_t facts = hk_profile_facts();
  if (facts.rate_bytes == 0) return 1;
  receiver_t receiver = {.output = {receive}, .put = put, .context = context};
  return hk_pprof_write(&receiver.output, &facts) ? 0 : 2;
}
