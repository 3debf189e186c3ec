/* tests/stress/stress_pipe.h - a pipe of blocks that some threads put in and any may take out.
 *
 * Blocks pass in parcels, so that a lock costs little beside what the allocator does. Each putter has a share of the
 * pipe's bytes, nothing comes out before all shares were full once, and no putter gets far ahead of another: what is
 * live at the most, and whose it is, does not depend on which thread the system lets run. A pipe owns all its memory
 * from its beginning, none of it hakmem's.
 */
#ifndef HK_TESTS_STRESS_STRESS_PIPE_H
#define HK_TESTS_STRESS_STRESS_PIPE_H

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

namespace hk_test {

struct Parcel {
  static constexpr size_t kBlocks = 64;

  void *blocks[kBlocks];
  size_t bytes = 0; /* of all of them */
};

class Pipe {
 public:
  /* Each of the putters may have `share_bytes` in the pipe. */
  Pipe(size_t putters, size_t share_bytes) : share_bytes_(share_bytes), putters_(putters), parcels_(kParcels) {}

  /* Calls `look` after each `every` parcels that are put, one call at a time. */
  void LookEach(size_t every, std::function<void()> look) {
    look_every_ = every;
    look_ = look;
  }

  void Put(size_t putter, const Parcel &parcel) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (IsFull(putter)) BeReady(putter);
    changed_.wait(lock, [this, putter] { return !IsFull(putter) && !IsAhead(putter); });
    putters_[putter].put_count++;
    parcels_[(first_ + count_++) % kParcels] = {parcel, putter};
    putters_[putter].bytes += parcel.bytes;
    bytes_ += parcel.bytes;
    if (bytes_ > peak_bytes_) peak_bytes_ = bytes_;
    if (look_every_ > 0 && ++put_count_ % look_every_ == 0) look_();
    if (is_open_) changed_.notify_all();
  }

  /* After the putter's last Put. */
  void Close(size_t putter) {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_count_++;
    putters_[putter].is_closed = true;
    BeReady(putter);
  }

  /* The oldest parcel; false when all were taken and no more will come. */
  bool Take(Parcel *parcel) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return is_open_ && (count_ > 0 || closed_count_ == putters_.size()); });
    if (count_ == 0) return false;
    *parcel = parcels_[first_].parcel;
    putters_[parcels_[first_].putter].bytes -= parcel->bytes;
    bytes_ -= parcel->bytes;
    first_ = (first_ + 1) % kParcels;
    count_--;
    changed_.notify_all();
    return true;
  }

  /* The most that was in the pipe at one time. */
  size_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Putter {
    size_t bytes = 0; /* in the pipe */
    size_t put_count = 0;
    bool is_ready = false; /* its share was full once, or it puts nothing more */
    bool is_closed = false;
  };
  struct Slot {
    Parcel parcel;
    size_t putter = 0;
  };
  static constexpr size_t kParcels = 4096;
  static constexpr size_t kMostAhead = 64;

  bool IsFull(size_t putter) const {
    return putters_[putter].bytes >= share_bytes_ || count_ >= kParcels - putters_.size();
  }

  /* Of one that the system does not let run. */
  bool IsAhead(size_t putter) const {
    if (!is_open_) return false;
    for (const Putter &other : putters_) {
      if (!other.is_closed && putters_[putter].put_count > other.put_count + kMostAhead) return true;
    }
    return false;
  }

  void BeReady(size_t putter) {
    ready_count_ += !putters_[putter].is_ready;
    putters_[putter].is_ready = true;
    if (ready_count_ == putters_.size()) is_open_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const size_t share_bytes_;
  std::vector<Putter> putters_;
  std::vector<Slot> parcels_; /* a ring */
  size_t first_ = 0, count_ = 0, bytes_ = 0, peak_bytes_ = 0, put_count_ = 0;
  size_t ready_count_ = 0, closed_count_ = 0;
  size_t look_every_ = 0;
  std::function<void()> look_;
  bool is_open_ = false;
};

} /* namespace hk_test */

#endif
