// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>

namespace evoq {

// xorshift64* (Vigna, 2016). A state of 0, which it could not leave, counts as 1.
class XorShift {
 public:
  explicit XorShift(uint64_t state) : state_(state == 0 ? 1 : state) {}
  // 64 bits, of which the upper ones are the better ones.
  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 2685821657736338717ull;
  }

 private:
  uint64_t state_;
};

}  // namespace evoq
