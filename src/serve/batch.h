// Samples of several requests as one run's inputs, and its outputs taken apart again.
#pragma once

#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace evoq::serve {

using Tensors = std::vector<Tensor>;

// Whether requests may share a run: as many inputs, of the same types but for dimension 0.
bool Joinable(const Tensors& a, const Tensors& b);
// The inputs one behind the other along dimension 0. All are Joinable, at least one is given, and
// each tensor has a rank of at least 1.
Tensors Joined(std::span<const Tensors* const> requests);
// Samples [first, first + count) of `total` of each output: views of its memory. Each output's
// dimension 0 is a multiple of `total`.
Tensors Samples(const Tensors& outputs, int64_t first, int64_t count, int64_t total);
// Whether Samples can take these outputs apart.
bool Separable(const Tensors& outputs, int64_t total);
bool BitEqual(const Tensors& a, const Tensors& b);

}  // namespace evoq::serve
