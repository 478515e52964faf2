// Biases of attention by the distance of a key from a query, in buckets.
#pragma once

#include <cstdint>
#include <vector>

namespace evoq {

// Of `buckets`, those of distances of up to `farthest`; what is farther shares the last bucket.
struct DistanceBuckets {
  int64_t buckets = 32, farthest = 128;
  bool both_sides = true;  // half of them are for keys behind the query; else those have the first

  // `distance`: the key's place less the query's.
  int64_t Of(int64_t distance) const;
};

// The slopes of ALiBi (LanguageModel::steepness), of each head: of a power of two heads
// 2^-(steepness / heads), 2^-(2 steepness / heads), ...; of another number those of the power below
// it, and every second one of the power above it for the heads that are left.
std::vector<float> SlopesOf(int64_t heads, float steepness);

}  // namespace evoq
