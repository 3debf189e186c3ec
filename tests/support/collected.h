/* tests/support/collected.h - the bytes in use once all is freed and all threads have ended. */
#ifndef HK_TESTS_SUPPORT_COLLECTED_H
#define HK_TESTS_SUPPORT_COLLECTED_H

#include <unistd.h>

#include <cstddef>

#include "hakmem/hakmem.h"

namespace hk_test {

/* Collects until nothing is in use, for two seconds at most: the purge thread may hold an idle heap, or the remote
 * frees of one, during the first call. Returns the bytes in use then: a block that is never collected keeps its
 * slab. */
inline size_t InUseAfterCollecting() {
  size_t bytes = 0;
  for (int turn = 0; turn < 200; turn++) {
    hakmem_collect();
    bytes = hakmem_mallinfo2().uordblks;
    if (bytes == 0) break;
    usleep(10000);
  }
  return bytes;
}

} /* namespace hk_test */

#endif /* HK_TESTS_SUPPORT_COLLECTED_H */
