/* pprof/proto.h - L7. Protocol buffers' encoding: messages of a bounded size, one at a time. */
#ifndef HK_PPROF_PROTO_H
#define HK_PPROF_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pprof/output.h"

HK_C_BEGIN

/* Of a number as it is written. */
#define HK_PROTO_NUMBER_BYTES 10
/* Room for the longest message: a path, or a sample with its frames. */
#define HK_PROTO_MESSAGE_BYTES 2048

/* A message in the making. What does not fit is left out, and the message is failed. */
typedef struct {
  size_t length;
  bool failed;
  unsigned char bytes[HK_PROTO_MESSAGE_BYTES];
} hk_proto_t;

void hk_proto_begin(hk_proto_t *message);
/* A field that is a number; 0 is what a field without a value means, and is left out. */
void hk_proto_number(hk_proto_t *message, unsigned field, uint64_t value);
/* A number behind the other, without a field: between hk_proto_begin and hk_proto_put. */
void hk_proto_element(hk_proto_t *message, uint64_t value);
/* A field that is a message or a list of numbers. */
void hk_proto_nested(hk_proto_t *message, unsigned field, const hk_proto_t *nested);

/* Puts a field of the outermost message. False where it did not fit or the receiver takes no more. */
bool hk_proto_put(hk_output_t *output, unsigned field, const hk_proto_t *message);
bool hk_proto_put_text(hk_output_t *output, unsigned field, const char *text, size_t length);
bool hk_proto_put_number(hk_output_t *output, unsigned field, uint64_t value);

HK_C_END

#endif /* HK_PPROF_PROTO_H */
