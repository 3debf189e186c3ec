// The checker's records of addresses, for one execution. Forgetting a record clears it and keeps its room. Otherwise
// the checker would spend most of its time on making the same records for each execution.
//
// A hash table with open addressing: every access of a scenario looks up several records.
#ifndef HK_TESTS_MODEL_CHECK_BY_ADDRESS_H
#define HK_TESTS_MODEL_CHECK_BY_ADDRESS_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace model_check {

template <typename Record>
class ByAddress {
 public:
  // Returns the execution's record of the address, a clear one at first. It stays where it is.
  Record &operator[](uintptr_t address) {
    Place *place = Find(address);
    Entry *entry = place->entry;
    if (entry == nullptr) {
      entries_.push_back(Entry{address, 0, {}});
      entry = &entries_.back();
      *place = Place{address, entry};
      if (2 * entries_.size() > places_.size()) Grow();
    }
    if (entry->execution != execution_) {
      entry->record.Clear();
      entry->execution = execution_;
    }
    return entry->record;
  }

  void Erase(uintptr_t address) {
    Entry *entry = Find(address)->entry;
    if (entry != nullptr) entry->record.Clear();
  }

  void ForgetAll() { execution_++; }

 private:
  struct Entry {
    uintptr_t address;
    uint64_t execution;
    Record record;
  };

  struct Place {
    uintptr_t address;
    Entry *entry;  // NULL: the place is empty
  };

  // Returns the address's place, or the empty one where it would be.
  Place *Find(uintptr_t address) {
    size_t i = static_cast<size_t>(uint64_t{address} * 0x9e3779b97f4a7c15u >> shift_);
    while (places_[i].entry != nullptr && places_[i].address != address) i = (i + 1) & (places_.size() - 1);
    return &places_[i];
  }

  void Grow() {
    shift_--;
    places_.assign(2 * places_.size(), Place{});
    for (Entry &entry : entries_) *Find(entry.address) = Place{entry.address, &entry};
  }

  unsigned shift_ = 64 - 8;
  std::vector<Place> places_ = std::vector<Place>(size_t{1} << 8);
  std::deque<Entry> entries_;  // which stay where they are
  uint64_t execution_ = 1;
};

}  // namespace model_check

#endif
