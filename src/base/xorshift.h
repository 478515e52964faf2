// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>

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

// A number that says nothing of its neighbours (splitmix64; Steele, Lea, Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014): the state of a generator for these.
inline uint64_t SeedOf(uint64_t seed, uint64_t a, uint64_t b) {
  uint64_t z = seed;
  for (const uint64_t part : {a, b}) {
    z += 0x9e3779b97f4a7c15ull * (part + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace evoq
