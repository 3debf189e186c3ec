// policy/learn_record: what a later run begins with; records of another machine, and damaged ones.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "policy/learn_record.h"
#include "unit/learn_driver.h"

using namespace hk_test;

namespace {

class LearnRecord : public Learn {};

TEST_F(LearnRecord, ARecordGoesOnWhereItWas) {
  Burst(300, 50 * HK_MIB, 4 * BreakEven());
  unsigned char bytes[HK_LEARN_RECORD_BYTES];
  hk_learn_export(&learn_, bytes);
  hk_learn_t later;
  ASSERT_TRUE(hk_learn_init(&later, 0, HK_PRICE_BALANCED));
  ASSERT_EQ(hk_learn_import(&later, bytes, sizeof bytes), hk_learn_record_good);
  EXPECT_EQ(hk_learn_timeout_ms(&later), Timeout());
  EXPECT_EQ(later.state, learn_.state);
  for (unsigned k = 0; k < HK_PRICE_CANDIDATES; k++) EXPECT_EQ(later.owed[k], learn_.owed[k]);
  EXPECT_EQ(hk_learn_log_find(&later.log, 0)->reason, hk_learn_loaded);
  unsigned char again[HK_LEARN_RECORD_BYTES];
  hk_learn_export(&later, again);
  EXPECT_EQ(memcmp(bytes, again, sizeof bytes), 0);
}

// A record is the same on every machine: as parts of the break-even time there.
TEST_F(LearnRecord, ARecordOfAnotherMachineIsConverted) {
  Burst(300, 50 * HK_MIB, 4 * BreakEven());
  unsigned char bytes[HK_LEARN_RECORD_BYTES], again[HK_LEARN_RECORD_BYTES];
  hk_learn_export(&learn_, bytes);
  hk_learn_t later;
  ASSERT_TRUE(hk_learn_init(&later, 0, HK_PRICE_BALANCED));
  hk_learn_set_costs(&later, 0, 3 * HK_PRICE_PURGE_NS, 3 * HK_PRICE_FAULT_NS);
  ASSERT_EQ(hk_learn_import(&later, bytes, sizeof bytes), hk_learn_record_good);
  EXPECT_EQ(later.leader, learn_.leader);
  EXPECT_EQ(later.usual_stake, 3 * learn_.usual_stake);
  for (unsigned k = 0; k < HK_PRICE_CANDIDATES; k++) EXPECT_EQ(later.owed[k], 3 * learn_.owed[k]);
  hk_learn_export(&later, again);
  EXPECT_EQ(memcmp(bytes, again, sizeof bytes), 0);
}

TEST_F(LearnRecord, EveryDamageOfARecordIsNoticed) {
  Burst(300, 50 * HK_MIB, 4 * BreakEven());
  unsigned char good[HK_LEARN_RECORD_BYTES], bytes[HK_LEARN_RECORD_BYTES];
  hk_learn_export(&learn_, good);
  hk_learn_t fresh;
  ASSERT_TRUE(hk_learn_init(&fresh, 0, HK_PRICE_BALANCED));
  hk_learn_t before = fresh;
  for (size_t at = 0; at < sizeof good; at++) {
    for (int bit = 0; bit < 8; bit++) {
      memcpy(bytes, good, sizeof good);
      bytes[at] ^= static_cast<unsigned char>(1 << bit);
      ASSERT_NE(hk_learn_import(&fresh, bytes, sizeof bytes), hk_learn_record_good) << at;
    }
  }
  for (size_t length = 0; length < sizeof good; length++) {
    ASSERT_NE(hk_learn_import(&fresh, good, length), hk_learn_record_good) << length;
  }
  EXPECT_EQ(memcmp(&before, &fresh, sizeof fresh), 0) << "a damaged record changes nothing";
}

TEST_F(LearnRecord, ARecordSaysWhyItIsNoGood) {
  unsigned char bytes[HK_LEARN_RECORD_BYTES];
  hk_learn_export(&learn_, bytes);
  EXPECT_EQ(hk_learn_import(&learn_, bytes, 5), hk_learn_record_no_record);
  EXPECT_EQ(hk_learn_import(&learn_, bytes, sizeof bytes - 1), hk_learn_record_damaged);
  hk_learn_t lean;
  ASSERT_TRUE(hk_learn_init(&lean, 0, HK_PRICE_LEAN));
  EXPECT_EQ(hk_learn_import(&lean, bytes, sizeof bytes), hk_learn_record_other_price);
  bytes[8] = 2;
  EXPECT_EQ(hk_learn_import(&learn_, bytes, sizeof bytes), hk_learn_record_other_version);
  bytes[0] = 0;
  EXPECT_EQ(hk_learn_import(&learn_, bytes, sizeof bytes), hk_learn_record_no_record);
  EXPECT_STREQ(hk_learn_record_text(hk_learn_record_other_price), "was learned at another price");
}

}  // namespace
