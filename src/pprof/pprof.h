/* pprof/pprof.h - L7. The sites as a file that pprof and its relatives read: gzipped profile.proto. */
#ifndef HK_PPROF_PPROF_H
#define HK_PPROF_PPROF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pprof/output.h"

HK_C_BEGIN

/* What the sites cannot say. */
typedef struct {
  uint64_t rate_bytes;  /* one sample for so many bytes */
  uint64_t time_ns;     /* since 1970, when the profile began */
  uint64_t taken_ns;    /* since 1970, now, or when the profile ended: what pprof calls the time of collection */
  uint64_t duration_ns; /* from the one to the other, as a clock ran that nobody sets */
} hk_profile_span_t;

/* Writes what the sites count now. False when the receiver did not take it all, or the system had no memory; what was put then is
 * no profile. Takes no lock and allocates nothing but a range of its own for a moment; needs 10 KiB of stack. */
bool hk_pprof_write(hk_output_t *to, const hk_profile_span_t *span);

HK_C_END

#endif /* HK_PPROF_PPROF_H */
