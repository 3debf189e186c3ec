// The checker's records of addresses, for one execution. Forgetting a record clears it and keeps its room. Otherwise
// the checker would spend most of its time on making the same records for each execution.
#ifndef HK_TESTS_MODEL_CHECK_BY_ADDRESS_H
#define HK_TESTS_MODEL_CHECK_BY_ADDRESS_H

#include <cstdint>
#include <unordered_map>

namespace model_check {

template <typename Record>
class ByAddress {
 public:
  // Returns the execution's record of the address, a clear one at first.
  Record &operator[](uintptr_t address) {
    Entry &entry = entries_[address];
    if (entry.execution != execution_) {
      entry.record.Clear();
      entry.execution = execution_;
    }
    return entry.record;
  }

  void Erase(uintptr_t address) {
    auto found = entries_.find(address);
    if (found != entries_.end()) found->second.record.Clear();
  }

  void ForgetAll() { execution_++; }

 private:
  struct Entry {
    uint64_t execution = 0;
    Record record;
  };
  std::unordered_map<uintptr_t, Entry> entries_;
  uint64_t execution_ = 1;
};

}  // namespace model_check

#endif
