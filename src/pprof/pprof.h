/* pprof/pprof.h - L7. Writes the sites as a file for pprof and other tools: gzipped profile.proto. */
#ifndef HK_PPROF_PPROF_H
#define HK_PPROF_PPROF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pprof/output.h"

HK_C_BEGIN

/* The figures of a profile that the sites do not have. */
typedef struct {
  uint64_t rate_bytes;  /* the average number of bytes between samples */
  uint64_t time_ns;     /* the profile's start, since 1970 */
  uint64_t taken_ns;    /* now, or the profile's end, since 1970: pprof's time of collection */
  uint64_t duration_ns; /* from start to end, by a clock that is never set */
} hk_profile_facts_t;

/* Writes the sites' present figures. Returns false when the receiver did not take all bytes, or the system had no
 * memory; the bytes put are no profile then. Takes no lock. Allocates nothing but two ranges of its own, which it
 * unmaps again. Needs 10 KiB of stack. */
bool hk_pprof_write(hk_output_t *to, const hk_profile_facts_t *facts);

HK_C_END

#endif /* HK_PPROF_PPROF_H */
