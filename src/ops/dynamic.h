// What inference and evaluation of DynamicConv and DynamicMatMul share.
#pragma once

#include <cstddef>

namespace evoq {

inline constexpr size_t kScaleInput = 4, kZeroInput = 5;

}  // namespace evoq
