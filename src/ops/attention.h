// What inference and evaluation of Attention share.
#pragma once

#include <cstddef>

namespace evoq {

enum Input : size_t {
  kQ,
  kK,
  kV,
  kMask,
  kPastKey,
  kPastValue,
  kLengths,
  // Of the dialect: of int8 keys and values, a float16 scale for each cache_block_size elements of
  // a row.
  kKeyScale,
  kValueScale
};

}  // namespace evoq
