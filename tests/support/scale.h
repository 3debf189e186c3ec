/* tests/support/scale.h - how long tests run.
 *
 * HAKMEM_TEST_SCALE multiplies iteration counts: 1 is for CI, 0.01 for a slow sanitizer, 100 for a night.
 */
#ifndef HK_TESTS_SUPPORT_SCALE_H
#define HK_TESTS_SUPPORT_SCALE_H

#include <cstddef>
#include <cstdlib>

#include "base/compiler.h"

namespace hk_test {

inline double Scale() {
  static const double scale = [] {
    const char *text = std::getenv("HAKMEM_TEST_SCALE");
    double value = text != nullptr ? std::strtod(text, nullptr) : 1.0;
    return value > 0 ? value : 1.0;
  }();
  return scale;
}

/* Returns `count` times the scale, but at least `least`, so that a small scale still tests something. */
inline size_t Scaled(size_t count, size_t least = 1) {
  double scaled = static_cast<double>(count) * Scale();
  size_t whole = scaled < 1e18 ? static_cast<size_t>(scaled) : static_cast<size_t>(1e18);
  return whole > least ? whole : least;
}

/* Sanitizers have shadow memory of their own and make programs slow: there resident memory shows nothing of the
 * allocator, and limits on addresses cannot be set. */
#define HAKMEM_TEST_SANITIZER HK_SANITIZED

} /* namespace hk_test */

#endif
