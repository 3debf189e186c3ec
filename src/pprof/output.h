/* pprof/output.h - L7. Where bytes go that are made one after the other, however many they become. */
#ifndef HK_PPROF_OUTPUT_H
#define HK_PPROF_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* The receiver puts this first into a struct of its own. False: it can take no more; nothing is sent then any more. */
typedef struct hk_output {
  bool (*put)(struct hk_output *output, const void *bytes, size_t count);
} hk_output_t;

/* A receiver that appends to a text, which may become any bytes. `kept_bytes` of its room stay for others. */
typedef struct {
  hk_output_t output;
  hk_format_t *text;
  size_t kept_bytes;
} hk_output_text_t;

void hk_output_text_init(hk_output_text_t *to, hk_format_t *text, size_t kept_bytes);

HK_C_END

#endif /* HK_PPROF_OUTPUT_H */
