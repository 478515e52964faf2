// Sizes that a file computes, known before a run up to the sizes that a run may choose: what
// SHAPE, STRIDED_SLICE, PACK and integer arithmetic make of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"

namespace evoq::tflite {

class Translator;

// factor * (size of axis `axis` of tensor `tensor`) + more; without the first term where `tensor`
// is -1. Numbers are within 2^40.
struct Size {
  int32_t tensor = -1;
  int axis = 0;
  int64_t factor = 0;
  int64_t more = 0;

  std::optional<int64_t> number() const { return tensor < 0 ? std::optional(more) : std::nullopt; }
};

// Elements of a small integer tensor; those that do not follow are missing. Empty: nothing follows.
using Sizes = std::vector<std::optional<Size>>;

// Nothing where the operands are of different tensors, or numbers grow beyond the limit.
std::optional<Size> Sum(const std::optional<Size>& a, const std::optional<Size>& b);
std::optional<Size> Difference(const std::optional<Size>& a, const std::optional<Size>& b);
std::optional<Size> Product(const std::optional<Size>& a, const std::optional<Size>& b);

// Output 0 of the operator at hand: `sizes` of rows.
Sizes SizesOfShape(const Translator& to);
Sizes SizesOfCast(const Translator& to);
Sizes SizesOfPack(const Translator& to);
Sizes SizesOfConcatenation(const Translator& to);
Sizes SizesOfStridedSlice(const Translator& to);
Sizes SizesOfSum(const Translator& to);
Sizes SizesOfDifference(const Translator& to);
Sizes SizesOfProduct(const Translator& to);

}  // namespace evoq::tflite
