/* inspect/probe.h - L8. Probes for tracers from outside, by OpenTelemetry's contract: otel_memory:alloc(pointer, bytes, weighted
 * bytes) and otel_memory:free(pointer), of sampled blocks alone. They are notes in the file (.note.stapsdt) that name a place in the code,
 * where the arguments are, and a word that is not 0 while somebody traces. Otherwise the place is not even reached. */
#ifndef HK_INSPECT_PROBE_H
#define HK_INSPECT_PROBE_H

#include <stdint.h>

#include "base/compiler.h"
#include "unwind/site.h"

HK_C_BEGIN

/* `weight` says how many bytes were asked for, and how many blocks of that size this one stands for. */
void hk_probe_alloc(uintptr_t address, const hk_sample_weight_t *weight);
void hk_probe_free(uintptr_t address);

HK_C_END

#endif /* HK_INSPECT_PROBE_H */
