// Where values live: offsets in one arena, shared by values that are not alive at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace evoq {

// A block that must exist from step `first` to step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
  int64_t offset = 0;  // result, a multiple of 64
};

// Chooses offsets so that blocks alive at a common step do not overlap; returns the arena's size.
// Largest blocks first, each at the lowest offset that is free during its life, as in Pisarchyk and
// Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), greedy by size. Takes
// time for each pair of blocks that are alive at one step. Errors: kTooLarge where the thread's
// budget of work does not allow that. All sums fit: inference refuses values of more than 2^38
// bytes.
Result<int64_t> PlanArena(std::vector<Lifetime>& blocks);

// The most bytes (each block rounded up to 64) that are alive at one step: a lower bound of every
// arena.
int64_t LiveBytes(const std::vector<Lifetime>& blocks);

}  // namespace evoq
