// Common to the tests of huge pages: superslabs and large blocks that are filled, and the advice for them.
#ifndef HK_TESTS_UNIT_HUGE_DRIVER_H
#define HK_TESTS_UNIT_HUGE_DRIVER_H

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/large_driver.h"

namespace hk_test {
inline namespace huge_driver {

constexpr uint64_t kMs = 1000000;
constexpr uint64_t kAgeMs = HK_THP_COLLAPSE_NS * 1000 / HK_THP_GAIN_NS;
constexpr unsigned kAll = HK_SUPERSLAB_SLABS;

inline void Set(hk_choice_huge_pages_t choice, hk_os_huge_t setting) {
  hk_option.huge_pages = choice;
  fake_os_set_huge(setting);
}

inline uint64_t Count(hk_stat_id_t id) { return hk_load_relaxed(&hk_stat_process.value[id]); }

// The calls about huge pages: 'a' asked, 'f' forbidden, 'c' made at once; capitals where the system refused.
inline std::string Calls(size_t from = 0) {
  std::string calls;
  for (size_t i = from; i < fake_os_log_length(); i++) {
    const fake_os_record_t *record = fake_os_log(i);
    if (record->call == fake_os_huge_ask) calls += record->succeeded ? 'a' : 'A';
    if (record->call == fake_os_huge_forbid) calls += record->succeeded ? 'f' : 'F';
    if (record->call == fake_os_huge_collapse) calls += record->succeeded ? 'c' : 'C';
  }
  return calls;
}

inline const fake_os_record_t *LastCall(fake_os_call_t call) {
  for (size_t i = fake_os_log_length(); i-- > 0;) {
    if (fake_os_log(i)->call == call) return fake_os_log(i);
  }
  return nullptr;
}

inline void MustFree(void *block) { ASSERT_TRUE(hk_test::Free(block)); }

// A whole superslab in one piece.
inline hk_slab_t *Fill(bool touch = true) {
  hk_slab_t *first = hk_superslab_acquire(kAll, 1, hk_from_bottom);
  if (touch) memset(reinterpret_cast<void *>(hk_slab_start(first)), 1, HK_SUPERSLAB_BYTES);
  return first;
}
inline void Release(hk_slab_t *first, unsigned count) {
  hk_slab_retire(first, count);
  hk_superslab_release(first, count);
}
inline uintptr_t StartOf(const hk_slab_t *first) { return first->superslab->start; }

inline void Visit() { hk_huge_visit(hk_os_coarse_ms()); }
inline void Pass(uint64_t ms) { fake_os_advance(ms * kMs); }
// Seen in use once, and again when it is old.
inline void GrowOld() {
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  Pass(kAgeMs + 1);
  Visit();
}

// In use beside, and known to be written: the share of it bounds nothing.
constexpr size_t kWritten = 4 * HK_GIB;

// Huge pages are advised for blocks if those before were dense; and freed memory is purged at once.
inline void LearnFromWhatGoesBack() {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_option.retain = 0;
  hk_bump_relaxed(&hk_dirty_extents.in_use_bytes, kWritten);
}
inline void KnowThatBlocksAreDense(size_t bytes) {
  for (int i = 0; i < 2; i++) { /* one alone tells nothing */
    char *block = Alloc(bytes);
    memset(block, 1, bytes);
    MustFree(block);
    (void)hk_purge_down_to(0);
  }
}

// With this number of superslabs in use the next one gets advice at any price.
constexpr unsigned kGrown = HK_THP_GROWN_MAX_BYTES / HK_SUPERSLAB_BYTES;

// The number of superslabs made before huge pages are advised for one.
inline unsigned UnaskedAt(uint64_t ns_per_mib_second) {
  hk_option.mode = ns_per_mib_second;
  unsigned count = 0;
  for (; Calls().empty() && count < 2 * kGrown; count++) (void)Fill();
  return count - 1;
}

}  // namespace huge_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_HUGE_DRIVER_H
