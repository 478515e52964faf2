// What definitions share: walks over elements, typed dispatch, outputs, element conversions.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "ops/util.h"
#include "reference/definition.h"

namespace evoq {

// ---- walks

// Calls body(i, offsets) for every index of `sizes` in row-major order; offsets[k] = sum_d index[d]
// * strides[k][d].
template <size_t N, typename Body>
void ForEachIndex(const std::vector<int64_t>& sizes,
                  const std::array<std::vector<int64_t>, N>& strides, const Body& body) {
  int64_t total = 1;
  for (int64_t s : sizes) total *= s;
  std::vector<int64_t> index(sizes.size(), 0);
  std::array<int64_t, N> offsets{};
  for (int64_t i = 0; i < total; ++i) {
    body(i, offsets);
    for (size_t d = sizes.size(); d-- > 0;) {
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][d];
      if (++index[d] < sizes[d]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][d] * sizes[d];
      index[d] = 0;
    }
  }
}

// For operators that only move elements: an unsigned integer of the element's width. Fewer than 8
// bits, strings: the driver brings them into integers (evaluate.cc).
template <typename Body>
auto DispatchWidth(DType dtype, Body&& body) -> decltype(body(uint8_t{})) {
  switch (DTypeBits(dtype)) {
    case 8: return body(uint8_t{});
    case 16: return body(uint16_t{});
    case 32: return body(uint32_t{});
    case 64: return body(uint64_t{});
    default: return Unsupported("element type {}, expected one of whole bytes", DTypeName(dtype));
  }
}

// ---- evaluation. The driver infers again from the tensors at hand, so `args.output_types` fit the
// inputs.

// Types that inference gives for the tensors at hand, all of them taken as constants.
InferResult InferFromValues(const EvalArgs& args);

// Bytes of one element. Errors: kUnsupported for the 4-bit types.
Result<int64_t> ElementBytes(const Tensor& tensor);

// Zero-filled. Errors: kTooLarge when the type is not static or absurdly large.
Result<Tensor> AllocateOutput(const TensorType& type);

// One output.
inline EvalResult One(Tensor tensor) {
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(tensor));
  return outputs;
}

// `x` with axes in the order `permutation`: y[i_0, ...] = x at axis permutation[d] = i_d. For
// whole-byte types.
Result<Tensor> Permuted(const Tensor& x, const std::vector<int>& permutation);

// The elements of a type of fewer than 8 bits, each in a byte: int8 for a signed integer type, else
// uint8. Same shape, no quantization. Other types pass unchanged.
Tensor UnpackBits(const Tensor& tensor);
// The inverse, keeping the low bits: `dtype` has at most 8.
Tensor PackBits(const Tensor& tensor, DType dtype);

// float32 -> any floating-point type, to nearest even (FloatToTinyFloat says what `saturate` and
// `rounding` mean).
Result<Tensor> FromFloat32(const Tensor& tensor, DType dtype, bool saturate = true,
                           Rounding rounding = Rounding::kUp);

}  // namespace evoq
