// Weights of fewer than 8 bits under integer arithmetic: kernels multiply them as int8 multiples of
// a power of two, files hold them in the bits that they need.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace evoq {

// An attribute of linear operators that compute with integers: so many bits (4 or 2) hold their
// weights.
inline constexpr char kWeightBits[] = "evoq.weight_bits";

// What the attribute says, 8 without it or with another number.
int WeightBitsOf(const Node& node);

// The signed type of 2, 4 or 8 bits.
DType WeightTypeOf(int bits);

// The power of two by which every one of these int8 numbers is divided to fit so many bits, the
// smallest that does; 0 where none does.
int NarrowFactor(std::span<const std::byte> numbers, int bits);

// int8 weights, symmetric and not packed, as the same real numbers in `bits` bits: integers divided
// by their NarrowFactor, scales multiplied by it. Nothing where they do not fit.
std::optional<Tensor> NarrowWeights(const Tensor& weights, int bits);

}  // namespace evoq
