// How a value of one model stands for the same value of another: in another order of axes, another
// type, with a factor on each channel.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace evoq {

// The value x of model A as y of model B: y = Transpose(x * factor[channel], perm) in B's type.
struct ValueForm {
  std::vector<int64_t> a_sizes;
  std::vector<int64_t> perm;   // empty: the elements are in one order
  std::vector<float> factors;  // on the axis `channel_axis` of A; empty: none
  int channel_axis = -1;

  // B's elements as A's model has them, in float32. Errors: those of ToFloat32; kInvalidInput for
  // another number of elements.
  Result<Tensor> ToA(const Tensor& b) const;
  // A's elements (float32, row-major, of a_sizes) as a tensor of this static type of B.
  Result<Tensor> ToB(const Tensor& a, const TensorType& type) const;
};

// A float32 tensor in another type: quantized where the type is, else converted. Integers are those
// that float32 came from.
Result<Tensor> InType(const Tensor& real, const TensorType& type);

// The one of them in which `b` is nearest to `a`. Errors: those of ToA.
Result<std::optional<ValueForm>> NearestForm(const Tensor& a, const Tensor& b, bool permuted);

}  // namespace evoq
