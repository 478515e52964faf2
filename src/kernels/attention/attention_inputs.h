// Attention's inputs, for whoever reads them: the operator, its definition, its kernel, passes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evoq {

enum AttentionInput : size_t {
  kQ,
  kK,
  kV,
  kMask,
  kPastKey,
  kPastValue,
  kLengths,
  // Of the dialect: of int8 keys and values, a float16 scale for each block of a row.
  kKeyScale,
  kValueScale,
  // Of the dialect: of each query head a score that takes part in the softmax and has no value.
  kSinks
};

// The attribute that says how many elements of a row have one scale, and what it is without it.
inline constexpr char kCacheBlockSize[] = "cache_block_size";
inline constexpr int64_t kCacheBlock = 32;

}  // namespace evoq
