/* policy/learn_record.c - L2. See learn_record.h. Numbers are stored with the lowest byte first:
 *
 *   8 bytes    "hkLEARN\n"
 *   4          version
 *   2, 1, 1    the record's length, state, leader
 *   8 each     price, epoch, usual stake, staked, what the leader and the stake were when it was frozen
 *   8 each     what each candidate owes
 *   4          CRC-32 of all before it (the one of zip, zlib and Ethernet)
 */
#include "policy/learn_record.h"

#include <assert.h>
#include <string.h>

static const unsigned char magic[8] = {'h', 'k', 'L', 'E', 'A', 'R', 'N', '\n'};

#define VERSION_AT 8u
#define LENGTH_AT 12u
#define STATE_AT 14u
#define LEADER_AT 15u
#define NUMBERS_AT 16u
#define CHECKSUM_AT (HK_LEARN_RECORD_BYTES - 4u)

static_assert(HK_LEARN_RECORD_BYTES <= UINT16_MAX, "the length has two bytes");

static uint32_t checksum(const unsigned char *bytes, size_t length) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < length; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0xedb88320) : 0);
  }
  return ~crc;
}

static void put(unsigned char *bytes, uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; i++) bytes[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *bytes, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
  return value;
}

void hk_learn_export(const hk_learn_t *learn, unsigned char *bytes) {
  const uint64_t numbers[] = {learn->price.ns_per_mib_second,
                              learn->epoch,
                              learn->usual_stake,
                              learn->staked,
                              learn->frozen_owed,
                              learn->frozen_staked};
  memcpy(bytes, magic, sizeof magic);
  put(bytes + VERSION_AT, HK_LEARN_RECORD_VERSION, 4);
  put(bytes + LENGTH_AT, HK_LEARN_RECORD_BYTES, 2);
  put(bytes + STATE_AT, learn->state, 1);
  put(bytes + LEADER_AT, learn->leader, 1);
  unsigned char *at = bytes + NUMBERS_AT;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++, at += 8) put(at, numbers[i], 8);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++, at += 8) put(at, learn->owed[i], 8);
  put(at, checksum(bytes, CHECKSUM_AT), 4);
}

static hk_learn_record_verdict_t look_at(const hk_learn_t *learn, const unsigned char *bytes, size_t length) {
  if (length < LENGTH_AT || memcmp(bytes, magic, sizeof magic) != 0) return hk_learn_record_no_record;
  if (get(bytes + VERSION_AT, 4) != HK_LEARN_RECORD_VERSION) return hk_learn_record_other_version;
  if (length != HK_LEARN_RECORD_BYTES || get(bytes + LENGTH_AT, 2) != length) return hk_learn_record_damaged;
  if (get(bytes + CHECKSUM_AT, 4) != checksum(bytes, CHECKSUM_AT)) return hk_learn_record_damaged;
  if (bytes[STATE_AT] > hk_learn_state_canary || bytes[LEADER_AT] >= HK_PRICE_CANDIDATES)
    return hk_learn_record_damaged;
  if (get(bytes + NUMBERS_AT, 8) != learn->price.ns_per_mib_second) return hk_learn_record_other_price;
  return hk_learn_record_good;
}

hk_learn_record_verdict_t hk_learn_import(hk_learn_t *learn, const unsigned char *bytes, size_t length) {
  hk_learn_record_verdict_t verdict = look_at(learn, bytes, length);
  if (verdict != hk_learn_record_good) return verdict;
  uint64_t *const numbers[] = {&learn->epoch, &learn->usual_stake, &learn->staked, &learn->frozen_owed,
                               &learn->frozen_staked};
  const unsigned char *at = bytes + NUMBERS_AT + 8;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++, at += 8) *numbers[i] = get(at, 8);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++, at += 8) learn->owed[i] = get(at, 8);
  hk_learn_lead(learn, hk_learn_loaded, (hk_learn_state_t)bytes[STATE_AT], bytes[LEADER_AT]);
  return verdict;
}

const char *hk_learn_record_text(hk_learn_record_verdict_t verdict) {
  static const char *const texts[] = {"is good", "is no record of what was learned",
                                      "has another version of the format", "is damaged",
                                      "was learned at another price"};
  return (unsigned)verdict < sizeof texts / sizeof texts[0] ? texts[verdict] : "is unknown";
}
