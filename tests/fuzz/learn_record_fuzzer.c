/* policy/learn_record and policy/learn: the input is a byte of flags, a record, and the program's later course. A
 * bad record has to change nothing. A good one has to be written again the same, and so does the state after the
 * course. */
#include "policy/learn_record.h"

#include <string.h>

#include "base/bytes.h"
#include "fuzz.h"

/* Flags. Without them very few inputs would pass the checksum. */
enum { is_sealed = 1, has_head = 2 };

static hk_learn_t learn, before, other;

/* Gives the record the head and checksum that the library writes, as the flags say. */
static void seal(unsigned char *record, unsigned flags) {
  if ((flags & has_head) != 0) {
    memcpy(record, "hkLEARN\n", 8);
    hk_bytes_put(record + 8, HK_LEARN_RECORD_VERSION, 4);
    hk_bytes_put(record + 12, HK_LEARN_RECORD_BYTES, 2);
    record[14] %= 3;
    record[15] %= HK_PRICE_CANDIDATES;
    hk_bytes_put(record + 16, HK_PRICE_BALANCED, 8);
  }
  size_t end = HK_LEARN_RECORD_BYTES - 4;
  if ((flags & is_sealed) != 0) hk_bytes_put(record + end, hk_bytes_crc32(0, record, end), 4);
}

static void check(void) {
  FUZZ_CHECK(learn.leader < HK_PRICE_CANDIDATES);
  FUZZ_CHECK(learn.state <= hk_learn_state_canary);
  uint64_t timeout_ms = hk_learn_timeout_ms(&learn), due_ms;
  bool is_candidate = false;
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    is_candidate |= timeout_ms == learn.price.timeout_ms[i];
    int64_t rating = hk_learn_rating(&learn, i);
    FUZZ_CHECK(rating >= 0 && rating <= 3000);
  }
  FUZZ_CHECK(is_candidate);
  (void)hk_learn_kept_bytes(&learn);
  (void)hk_learn_next_due(&learn, &due_ms);
}

/* Runs the program's course: each step has milliseconds, and the bytes in use then. */
static void go_on(fuzz_input_t *input) {
  uint64_t now_ms = 0;
  while (input->left > 0) {
    uint64_t step = fuzz_number(input, 2), in_use = fuzz_number(input, 2);
    now_ms += step < 0xf000 ? step : (step & 0xfff) << 12;
    hk_learn_note(&learn, now_ms, (size_t)(in_use << (in_use & 31)));
    check();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  unsigned char record[HK_LEARN_RECORD_BYTES] = {0}, again[HK_LEARN_RECORD_BYTES];
  fuzz_input_t input = {data, size};
  unsigned flags = (unsigned)fuzz_number(&input, 1);
  size_t length = input.left < sizeof record ? input.left : sizeof record;
  memcpy(record, input.at, length);
  bool is_made = (flags & (is_sealed | has_head)) != 0;
  if (is_made) seal(record, flags);

  FUZZ_CHECK(hk_learn_init(&learn, 0, HK_PRICE_BALANCED));
  before = learn;
  hk_learn_record_verdict_t verdict = hk_learn_import(&learn, record, is_made ? sizeof record : length);
  FUZZ_CHECK(hk_learn_record_text(verdict) != NULL);
  if (verdict != hk_learn_record_good) {
    FUZZ_CHECK(memcmp(&learn, &before, sizeof learn) == 0);
    return 0;
  }
  hk_learn_export(&learn, again);
  FUZZ_CHECK(memcmp(record, again, sizeof record) == 0);
  check();

  input.at += length;
  input.left -= length;
  go_on(&input);
  hk_learn_export(&learn, record);
  FUZZ_CHECK(hk_learn_init(&other, 0, HK_PRICE_BALANCED));
  FUZZ_CHECK(hk_learn_import(&other, record, sizeof record) == hk_learn_record_good);
  hk_learn_export(&other, again);
  FUZZ_CHECK(memcmp(record, again, sizeof record) == 0);
  return 0;
}
