// A hash table from 64-bit keys to 64-bit values in one array: pairs of pieces, edges of a trie.
#pragma once

#include <cstdint>
#include <vector>

namespace evoq {

class FlatMap {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};  // neither a key nor a value

  void Reserve(size_t items) { Rehash(items * 2); }
  size_t size() const { return size_; }

  // The value of `key`, kNone where there is none.
  uint64_t Find(uint64_t key) const {
    if (slots_.empty()) return kNone;
    for (size_t i = Hash(key);; ++i) {
      const Slot& slot = slots_[i & mask_];
      if (slot.key == key) return slot.value;
      if (slot.key == kNone) return kNone;
    }
  }

  // Sets the value; the old one is lost.
  void Set(uint64_t key, uint64_t value) {
    if (2 * (size_ + 1) > slots_.size()) Rehash(4 * (size_ + 1));
    for (size_t i = Hash(key);; ++i) {
      Slot& slot = slots_[i & mask_];
      if (slot.key == kNone) ++size_;
      if (slot.key != kNone && slot.key != key) continue;
      slot = {key, value};
      return;
    }
  }

 private:
  struct Slot {
    uint64_t key = kNone, value = 0;
  };
  static size_t Hash(uint64_t key) {
    key ^= key >> 32;
    key *= 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
    return static_cast<size_t>(key ^ (key >> 29));
  }
  void Rehash(size_t at_least) {
    size_t slots = 16;
    while (slots < at_least) slots *= 2;
    if (slots <= slots_.size()) return;
    std::vector<Slot> old(slots);
    old.swap(slots_);
    mask_ = slots - 1;
    size_ = 0;
    for (const Slot& slot : old) {
      if (slot.key != kNone) Set(slot.key, slot.value);
    }
  }
  std::vector<Slot> slots_;
  size_t mask_ = 0, size_ = 0;
};

}  // namespace evoq
