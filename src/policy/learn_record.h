/* policy/learn_record.h - L2. The results of learning as bytes that a later run can begin with. Bytes in, bytes out,
 * the same on every machine; files are read and written elsewhere.
 *
 * Costs in a record are those of a machine with the constants of policy/price.h. A learner with measured costs
 * converts them, and its candidates are the same parts of its own break-even time. */
#ifndef HK_POLICY_LEARN_RECORD_H
#define HK_POLICY_LEARN_RECORD_H

#include <stddef.h>

#include "base/compiler.h"
#include "policy/learn.h"

HK_C_BEGIN

/* The version of the format, and the length of a record: its fields are in learn_record.c. */
#define HK_LEARN_RECORD_VERSION 1u
#define HK_LEARN_RECORD_BYTES (8u + 4u + 4u + 8u * (6u + HK_PRICE_CANDIDATES) + 4u)

typedef enum {
  hk_learn_record_good,
  hk_learn_record_no_record,     /* too short, or without the bytes that a record begins with */
  hk_learn_record_other_version, /* of the format */
  hk_learn_record_damaged,       /* truncated, or with a wrong checksum, or with impossible numbers */
  hk_learn_record_other_price,   /* learned at another price than the learner's */
} hk_learn_record_verdict_t;

/* Writes HK_LEARN_RECORD_BYTES bytes. */
void hk_learn_export(const hk_learn_t *learn, unsigned char *bytes);

/* Continues from the record. Call it after hk_learn_init and before any other function. A record that is not
 * good changes nothing. */
hk_learn_record_verdict_t hk_learn_import(hk_learn_t *learn, const unsigned char *bytes, size_t length);

/* Returns the text of a verdict for a message: "is damaged". */
const char *hk_learn_record_text(hk_learn_record_verdict_t verdict);

HK_C_END

#endif /* HK_POLICY_LEARN_RECORD_H */
