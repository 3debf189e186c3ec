// A machine of several shards, one for each processor.
#ifndef HK_TESTS_UNIT_SHARDS_TEST_H
#define HK_TESTS_UNIT_SHARDS_TEST_H

#include <gtest/gtest.h>

#include "fake_os.h"
#include "os/shard.h"

namespace hk_test {
inline namespace shards_test {

// Requires that the library has not read the number of processors.
inline void SetShards(unsigned count) {
  fake_os_set_cpu_count(count);
  hk_shard_note_threads(count);
  ASSERT_EQ(hk_load_relaxed(&hk_shard_count), count);
}

inline void MoveToShard(unsigned shard) { fake_os_move_to_cpu(shard); }

}  // namespace shards_test
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_SHARDS_TEST_H
