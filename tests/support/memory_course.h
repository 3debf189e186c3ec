/* tests/support/memory_course.h - the resident memory of a process in the course of a run.
 *
 * The run calls Look at counts of its own, never by a clock. A course is plain data, so that a child process can fill
 * one in for its parent (Shared in in_child.h).
 */
#ifndef HK_TESTS_SUPPORT_MEMORY_COURSE_H
#define HK_TESTS_SUPPORT_MEMORY_COURSE_H

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

#include "support/process_memory.h"

namespace hk_test {

class MemoryCourse {
 public:
  static constexpr size_t kMostLooks = 256;

  /* Memory that is resident now does not count for the run. The run's peak is only known in a process that had no
   * higher one before. */
  void Begin() { before_ = ResidentBytes(); }

  /* For one thread at a time. Looks beyond kMostLooks are not kept. */
  void Look() {
    if (look_count_ < kMostLooks) looks_[look_count_++] = Above(ResidentBytes());
  }

  void End() {
    end_ = Above(ResidentBytes());
    peak_ = Above(PeakResidentBytes());
  }

  /* All bytes are those above the resident ones at Begin. */
  size_t peak() const { return peak_; }
  size_t end() const { return end_; }
  size_t look_count() const { return look_count_; }
  size_t look(size_t index) const { return looks_[index]; }
  /* Return the highest look up to and including one, and behind it. What a run has needed so far is the highest look:
   * a single one may come just after idle memory was purged. */
  size_t HighestTo(size_t index) const { return Highest(0, index + 1); }
  size_t HighestAfter(size_t index) const { return Highest(index + 1, look_count_); }

  /* Returns all looks, in KiB, for the message of a failure. */
  std::string AllLooks() const {
    std::string text;
    for (size_t i = 0; i < look_count_; i++) text += std::to_string(looks_[i] / kKiB) + ' ';
    return text;
  }

  /* Prints a line for the test's log. `early` is the last look that later ones are compared with. */
  void Print(const char *what, size_t live_bytes, size_t early) const {
    std::printf("%s: live %zu KiB, peak %zu, early %zu, highest later %zu, end %zu\n", what, live_bytes / kKiB,
                peak_ / kKiB, HighestTo(early) / kKiB, HighestAfter(early) / kKiB, end_ / kKiB);
  }

 private:
  size_t Highest(size_t begin, size_t end) const {
    size_t highest = 0;
    for (size_t i = begin; i < std::min(end, look_count_); i++) highest = std::max(highest, looks_[i]);
    return highest;
  }
  size_t Above(size_t resident) const { return resident > before_ ? resident - before_ : 0; }

  size_t before_ = 0, peak_ = 0, end_ = 0, look_count_ = 0;
  size_t looks_[kMostLooks] = {};
};

} /* namespace hk_test */

#endif
