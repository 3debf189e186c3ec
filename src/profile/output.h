/* profile/output.h - L5. Where bytes go that are made one after the other, however many they become. */
#ifndef HK_PROFILE_OUTPUT_H
#define HK_PROFILE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The receiver puts this first into a struct of its own. False: it can take no more; nothing is sent then any more. */
typedef struct hk_output {
  bool (*put)(struct hk_output *output, const void *bytes, size_t count);
} hk_output_t;

/* A receiver with a buffer of a given size. */
typedef struct {
  hk_output_t output;
  unsigned char *bytes;
  size_t capacity;
  size_t length;
} hk_output_buffer_t;

void hk_output_buffer_init(hk_output_buffer_t *buffer, void *bytes, size_t capacity);

HK_C_END

#endif /* HK_PROFILE_OUTPUT_H */
