// os/address_hole.h: hints where ranges shorter than a slab were unmapped and mapped.
#include <set>

#include "fresh_test.h"

extern "C" {
#include "base/units.h"
#include "os/address_hole.h"
}

namespace {

constexpr uintptr_t kFirst = 1000 * HK_SLAB_BYTES;

HK_FRESH_TEST(AddressHole, ReturnsEachHoleOnce) {
  EXPECT_EQ(hk_address_hole_take(), 0u);
  std::set<uintptr_t> noted, taken;
  for (unsigned i = 0; i < 10; i++) noted.insert(kFirst + i * HK_SLAB_BYTES);
  for (uintptr_t start : noted) hk_address_hole_note(start);
  while (uintptr_t start = hk_address_hole_take()) EXPECT_TRUE(taken.insert(start).second);
  EXPECT_EQ(taken, noted);
}

HK_FRESH_TEST(AddressHole, IgnoresWhatIsNoStartOfASlab) {
  hk_address_hole_note(kFirst + 4096);
  EXPECT_EQ(hk_address_hole_take(), 0u);
}

HK_FRESH_TEST(AddressHole, GoesDownFromTheLastMapping) {
  EXPECT_EQ(hk_address_hole_below(), 0u);
  hk_address_hole_note_mapped(kFirst);
  EXPECT_EQ(hk_address_hole_below(), kFirst - HK_SLAB_BYTES);
  EXPECT_EQ(hk_address_hole_below(), kFirst - 2 * HK_SLAB_BYTES);
  hk_address_hole_note_mapped(HK_SLAB_BYTES);
  EXPECT_EQ(hk_address_hole_below(), 0u) << "address 0 is no hint";
}

HK_FRESH_TEST(AddressHole, FindsAForgottenHoleFromAbove) {
  unsigned noted = 0;
  hk_address_hole_note_mapped(kFirst);
  for (; noted < 1000; noted++) hk_address_hole_note(kFirst + (noted + 1) * HK_SLAB_BYTES);
  std::set<uintptr_t> found;
  while (uintptr_t start = hk_address_hole_take()) found.insert(start);
  EXPECT_LT(found.size(), noted) << "the table is full before";
  uintptr_t highest = kFirst + noted * HK_SLAB_BYTES;
  EXPECT_EQ(hk_address_hole_below(), highest) << "the way down begins at the highest one";
}

}  // namespace
