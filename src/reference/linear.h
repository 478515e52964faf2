// What Conv, ConvTranspose, MatMul and Gemm share: from exact sums to outputs, in float32 and in
// integers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/activation.h"
#include "reference/util.h"

namespace evoq {

// Sums are laid out [outer, channels, inner], as the output is; `channels.size` output channels.
struct LinearCall {
  const Tensor* x = nullptr;
  const Tensor* w = nullptr;
  int w_axis =
      -1;  // the output-channel axis of w; channel c has scale c % scales (groups repeat them)
  const Tensor* bias = nullptr;      // [channels] or nullptr
  const Tensor* residual = nullptr;  // as the output, or nullptr
  const Tensor* table =
      nullptr;  // see ThroughTable; its type's parameters are those of the values before it
  Activation activation;
  std::span<const float> slopes = {};  // of PRelu, one per channel
  TensorType y;
  AxisSplit channels;
};

// Errors: kUnsupported when the types have no integer definition in kernels/requant.h (the driver
// then dequantizes). It needs x quantized per tensor, w per tensor or on w_axis, bias int32, y
// float32 or quantized per tensor to at most 16 bits, residual quantized per tensor or float32.
Status CheckInteger(const LinearCall& call);

// Elements minus their zero points, as int32 in two's complement: sums and products of them wrap as
// int32 does.
Result<std::vector<uint32_t>> Centered(const Tensor& tensor);

// y = activation(dtype(sum + bias) + residual), in `dtype`: float32 or float64, that of bias and
// residual too. Errors: kUnsupported where those are floats of another type (the driver then widens
// them).
EvalResult FinishFloat(const LinearCall& call, DType dtype, std::span<const double> sums);

// kernels/requant.h, on sums without bias.
EvalResult FinishInteger(const LinearCall& call, std::span<const uint32_t> sums);

// Input `table` of a linear operator and of Lookup: y = table[x] by bytes. In a linear operator it
// stands behind the quantization to its own parameters: y = table[saturate(round(v) + zero)].
Tensor ThroughTable(const Tensor& x, const Tensor& table, const TensorType& y);
// int32 values into an integer type of at most 32 bits; they must fit.
Tensor FromInt32s(const TensorType& type, std::span<const int32_t> values);

// Quantization parameters from the tensors of an ONNX operator: scales float32 (one, or one per
// index of `axis`), zero points of `dtype` (nullptr: 0). Errors: kInvalidInput when they do not
// agree.
Result<TensorType> QuantizedType(DType dtype, const Shape& shape, const Tensor& scale,
                                 const Tensor* zero_point, int axis);
// Input i with those that the next two inputs hold, its scales and its zero points.
Result<Tensor> QuantizedInput(const EvalArgs& args, size_t i, int axis);

}  // namespace evoq
