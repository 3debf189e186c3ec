/* pprof/output.h - L7. A receiver of bytes that are made piece by piece, in any number. */
#ifndef HK_PPROF_OUTPUT_H
#define HK_PPROF_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* A receiver has this in a struct of its own. `put` returns false when the receiver takes no more; the sender then
 * sends nothing further. */
typedef struct hk_output {
  bool (*put)(struct hk_output *output, const void *bytes, size_t count);
} hk_output_t;

/* A receiver that appends any bytes to a text. It leaves `kept_bytes` of the text's room to its owner. */
typedef struct {
  hk_output_t output;
  hk_format_t *text;
  size_t kept_bytes;
} hk_output_text_t;

void hk_output_text_init(hk_output_text_t *to, hk_format_t *text, size_t kept_bytes);

HK_C_END

#endif /* HK_PPROF_OUTPUT_H */
