/* pprof/proto.h - L7. Writes messages in the encoding of protocol buffers, one at a time, each of a bounded size. */
#ifndef HK_PPROF_PROTO_H
#define HK_PPROF_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pprof/output.h"

HK_C_BEGIN

/* The most bytes of an encoded number. */
#define HK_PROTO_NUMBER_BYTES 10
/* Room for the longest message, a sample with its frames. Texts need no room here. */
#define HK_PROTO_MESSAGE_BYTES 2048

/* A message under construction. It leaves out a part that does not fit, and has failed then. */
typedef struct {
  size_t length;
  bool failed;
  unsigned char bytes[HK_PROTO_MESSAGE_BYTES];
} hk_proto_t;

void hk_proto_begin(hk_proto_t *message);
/* Appends a field that is a number. Leaves out 0, the value of an absent field. */
void hk_proto_number(hk_proto_t *message, unsigned field, uint64_t value);
/* Appends a number without a field, for a message that is a list of numbers. */
void hk_proto_element(hk_proto_t *message, uint64_t value);
/* Appends a field that is a message or a list of numbers. */
void hk_proto_nested(hk_proto_t *message, unsigned field, const hk_proto_t *nested);

/* Put a field of the outermost message. Return false when the message has failed, or the receiver takes no more. */
bool hk_proto_put(hk_output_t *output, unsigned field, const hk_proto_t *message);
bool hk_proto_put_text(hk_output_t *output, unsigned field, const char *text, size_t length);
/* Puts a path, which may have any bytes, as UTF-8: readers refuse a whole profile for a text that is none. A byte of no
 * printable character becomes \udcNN, as Python writes names of files; an ASCII control character stays. */
bool hk_proto_put_path(hk_output_t *output, unsigned field, const char *path);
bool hk_proto_put_number(hk_output_t *output, unsigned field, uint64_t value);

HK_C_END

#endif /* HK_PPROF_PROTO_H */
