// Quant(x, scale, zeropt, bitwidth) of QONNX: fake quantization to any number of bits, under the
// names of the tools that write it. scale, zeropt and bitwidth broadcast to x. With v = x / scale +
// zeropt:
//   y = (round(clip(v, low, high)) - zeropt) * scale; one signed bit is bipolar: round(v) is 1 for
//   v >= 0, else -1.
#include "ops/quant_qonnx.h"

#include <cmath>

#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  const Attrs& attrs = args.node.attrs;
  for (const Tensor& tensor : args.inputs) {
    if (tensor.dtype() != DType::kFloat32)
      return Unsupported("{} input", DTypeName(tensor.dtype()));
  }
  EVOQ_ASSIGN(const auto round, QonnxRounding(attrs.String("rounding_mode", "ROUND")));
  const bool is_signed = attrs.Int("signed", 1) != 0, narrow = attrs.Int("narrow", 0) != 0;
  const Tensor& x = args.inputs[0];
  const std::vector<int64_t> sizes = x.sizes();
  std::array<std::vector<int64_t>, 3> strides;
  for (size_t i = 0; i < 3; ++i) strides[i] = BroadcastStrides(args.inputs[i + 1].sizes(), sizes);
  Tensor y = Tensor::Allocate(x.type());
  float* out = y.mutable_data<float>();
  ForEachIndex<3>(sizes, strides, [&](int64_t i, const auto& offset) {
    const float scale = args.inputs[1].data<float>()[offset[0]];
    const float zero = args.inputs[2].data<float>()[offset[1]];
    const float bits = args.inputs[3].data<float>()[offset[2]];
    float v = x.data<float>()[i] / scale + zero;
    if (bits == 1 && is_signed) {
      v = v >= 0 ? 1.0f : -1.0f;
    } else {
      const float levels = std::exp2(is_signed ? bits - 1 : bits);
      const float low = is_signed ? -levels + (narrow ? 1.0f : 0.0f) : 0.0f;
      const float high = is_signed ? levels - 1 : levels - (narrow ? 2.0f : 1.0f);
      v = round(std::fmax(std::fmin(v, high), low));
    }
    out[i] = (v - zero) * scale;
  });
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kFinnQuant = {
    .name = "Quant", .domain = "finn.custom_op.general", .evaluate = Evaluate};
extern const Definition kBrevitasQuant = {
    .name = "Quant", .domain = "onnx.brevitas", .evaluate = Evaluate};
extern const Definition kQonnxQuant = {
    .name = "Quant", .domain = "qonnx.custom_op.general", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
