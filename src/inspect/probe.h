/* inspect/probe.h - L8. Probes for tracers, by OpenTelemetry's contract: otel_memory:alloc(pointer, bytes, weighted
 * bytes) and otel_memory:free(pointer), for sampled blocks only.
 *
 * A probe is a note in the library's file (.note.stapsdt). It names a place in the code, the places of the arguments,
 * and a word that is not 0 while a tracer is attached. While the word is 0, the code at the place does not run.
 */
#ifndef HK_INSPECT_PROBE_H
#define HK_INSPECT_PROBE_H

#include <stdint.h>

#include "base/compiler.h"
#include "unwind/site.h"

HK_C_BEGIN

/* `weight` has the requested bytes and the number of blocks that the sample stands for. */
void hk_probe_alloc(uintptr_t address, const hk_sample_weight_t *weight);
void hk_probe_free(uintptr_t address);

HK_C_END

#endif /* HK_INSPECT_PROBE_H */
