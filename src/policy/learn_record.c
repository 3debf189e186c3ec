/* policy/learn_record.c - L2. See learn_record.h. Numbers are stored with the lowest byte first:
 *
 *   8 bytes    "hkLEARN\n"
 *   4          version
 *   2, 1, 1    the record's length, state, leader
 *   8 each     price, epoch, usual stake, staked, frozen_owed, frozen_staked
 *   8 each     what each candidate owes
 *   4          CRC-32 of all bytes before it
 */
#include "policy/learn_record.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

static const unsigned char magic[8] = {'h', 'k', 'L', 'E', 'A', 'R', 'N', '\n'};

#define VERSION_AT 8u
#define LENGTH_AT 12u
#define STATE_AT 14u
#define LEADER_AT 15u
#define NUMBERS_AT 16u
#define CHECKSUM_AT (HK_LEARN_RECORD_BYTES - 4u)

static_assert(HK_LEARN_RECORD_BYTES <= UINT16_MAX, "the length has two bytes");

static uint32_t checksum(const unsigned char *bytes) { return hk_bytes_crc32(0, bytes, CHECKSUM_AT); }

/* What purging a MiB and faulting it in again take: where records come from, and here. */
#define RECORD_NS (HK_PRICE_PURGE_NS + HK_PRICE_FAULT_NS)
static uint64_t own_ns(const hk_learn_t *learn) { return learn->price.purge_ns + learn->price.fault_ns; }

static uint64_t as_recorded(const hk_learn_t *learn, uint64_t cost) {
  return hk_price_rescaled(cost, own_ns(learn), RECORD_NS);
}

void hk_learn_export(const hk_learn_t *learn, unsigned char *bytes) {
  const uint64_t numbers[] = {learn->price.ns_per_mib_second,         learn->epoch,
                              as_recorded(learn, learn->usual_stake), as_recorded(learn, learn->staked),
                              as_recorded(learn, learn->frozen_owed), as_recorded(learn, learn->frozen_staked)};
  memcpy(bytes, magic, sizeof magic);
  hk_bytes_put(bytes + VERSION_AT, HK_LEARN_RECORD_VERSION, 4);
  hk_bytes_put(bytes + LENGTH_AT, HK_LEARN_RECORD_BYTES, 2);
  hk_bytes_put(bytes + STATE_AT, learn->state, 1);
  hk_bytes_put(bytes + LEADER_AT, learn->leader, 1);
  unsigned char *at = bytes + NUMBERS_AT;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++, at += 8) hk_bytes_put(at, numbers[i], 8);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++, at += 8) hk_bytes_put(at, as_recorded(learn, learn->owed[i]), 8);
  hk_bytes_put(at, checksum(bytes), 4);
}

static hk_learn_record_verdict_t look_at(const hk_learn_t *learn, const unsigned char *bytes, size_t length) {
  if (length < LENGTH_AT || memcmp(bytes, magic, sizeof magic) != 0) return hk_learn_record_no_record;
  if (hk_bytes_get(bytes + VERSION_AT, 4) != HK_LEARN_RECORD_VERSION) return hk_learn_record_other_version;
  if (length != HK_LEARN_RECORD_BYTES || hk_bytes_get(bytes + LENGTH_AT, 2) != length) return hk_learn_record_damaged;
  if (hk_bytes_get(bytes + CHECKSUM_AT, 4) != checksum(bytes)) return hk_learn_record_damaged;
  if (bytes[STATE_AT] > hk_learn_state_canary || bytes[LEADER_AT] >= HK_PRICE_CANDIDATES)
    return hk_learn_record_damaged;
  if (hk_bytes_get(bytes + NUMBERS_AT, 8) != learn->price.ns_per_mib_second) return hk_learn_record_other_price;
  return hk_learn_record_good;
}

hk_learn_record_verdict_t hk_learn_import(hk_learn_t *learn, const unsigned char *bytes, size_t length) {
  hk_learn_record_verdict_t verdict = look_at(learn, bytes, length);
  if (verdict != hk_learn_record_good) return verdict;
  uint64_t *const numbers[] = {&learn->epoch, &learn->usual_stake, &learn->staked, &learn->frozen_owed,
                               &learn->frozen_staked};
  const unsigned char *at = bytes + NUMBERS_AT + 8;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++, at += 8) *numbers[i] = hk_bytes_get(at, 8);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++, at += 8) learn->owed[i] = hk_bytes_get(at, 8);
  hk_learn_rescale(learn, RECORD_NS, own_ns(learn));
  hk_learn_lead(learn, hk_learn_loaded, (hk_learn_state_t)bytes[STATE_AT], bytes[LEADER_AT]);
  return verdict;
}

const char *hk_learn_record_text(hk_learn_record_verdict_t verdict) {
  static const char *const texts[] = {"is good", "is no record of what was learned",
                                      "has another version of the format", "is damaged",
                                      "was learned at another price"};
  return (unsigned)verdict < sizeof texts / sizeof texts[0] ? texts[verdict] : "is unknown";
}
