// What inference and evaluation of Attention share.
#pragma once

#include <cstddef>

namespace evoq {

enum Input : size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };

}  // namespace evoq
