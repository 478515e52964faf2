#include "kernels/conv/conv_shape_f32.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/activation.h"
#include "kernels/call_util.h"
#include "kernels/gemm/float_rows.h"

namespace evoq {
namespace {

std::optional<Reason> RejectTypes(const KernelCall& call) {
  if (auto why = RejectFloatOperands(call, "x, w and y")) return why;
  // Weights that ToFloat32 turns into float32 without loss.
  const TensorType& w = call.inputs[1];
  if (!w.quantized() && w.dtype != DType::kFloat32 && w.dtype != DType::kFloat16 &&
      w.dtype != DType::kBfloat16)
    return Reject("types", "weight {}", w.ToString());
  if (call.constant(1) == nullptr && !PlainFloat(w))
    return Reject("not-constant", "the weight, {}, is computed", w.ToString());
  return std::nullopt;
}

std::optional<Reason> ReadSizes(const KernelCall& call, bool transposed, ConvShapeF32& s) {
  const std::vector<int64_t> x = call.inputs[0].shape.sizes(), w = call.inputs[1].shape.sizes(),
                             y = call.outputs[0].shape.sizes();
  const size_t rank = x.size();
  if (rank < 3 || rank > 5 || w.size() != rank || y.size() != rank)
    return Reject("shape", "ranks {}, {} and {}, expected 3 to 5", rank, w.size(), y.size());
  s.batch = x[0];
  s.channels_in = x[rank - 1];
  s.channels_out = y[rank - 1];
  s.group = call.attrs.Int("group", 1);
  const bool fits = s.group >= 1 && s.channels_in % s.group == 0 && s.channels_out % s.group == 0 &&
                    y[0] == x[0] &&
                    (transposed ? w[0] == s.channels_in && w[1] == s.columns()
                                : w[0] == s.channels_out && w[1] == s.depth());
  if (!fits)
    return Reject("shape", "{} * {} -> {} in {} groups", call.inputs[0].ToString(),
                  call.inputs[1].ToString(), call.outputs[0].ToString(), s.group);
  if (call.has_input(2) && call.inputs[2].shape != Shape({s.channels_out}))
    return Reject("shape", "bias {}", call.inputs[2].ToString());
  if (call.has_input(3) && call.inputs[3].shape != call.outputs[0].shape)
    return Reject("shape", "residual {}", call.inputs[3].ToString());
  for (size_t i = 0; i + 2 < rank; ++i) {
    const size_t axis = 5 - rank + i;
    s.in[axis] = x[i + 1], s.out[axis] = y[i + 1], s.kernel[axis] = w[i + 2];
  }
  return std::nullopt;
}

// First pad of one axis, as ONNX defines it. `total`: the padding that makes the sizes fit, which
// `from_total` asks for.
int64_t FirstPad(const std::string& auto_pad, int64_t explicit_pad, int64_t total,
                 bool from_total) {
  total = std::max<int64_t>(total, 0);
  if (auto_pad == "SAME_UPPER") return total / 2;
  if (auto_pad == "SAME_LOWER" || from_total) return total - total / 2;
  return auto_pad == "VALID" ? 0 : explicit_pad;
}

}  // namespace

std::optional<Reason> ReadConvShape(const KernelCall& call, bool transposed, ConvShapeF32& s) {
  if (auto why = RejectTypes(call)) return why;
  return ReadConvSizes(call, transposed, s);
}

std::optional<Reason> ReadConvSizes(const KernelCall& call, bool transposed, ConvShapeF32& s) {
  if (auto why = RejectUnknownShapes(call)) return why;
  if (call.attrs.Int("channels_last") != 1)
    return Reject("layout", "the values are not channels-last");
  if (auto why = ReadSizes(call, transposed, s)) return why;
  if (!ActivationFromAttrs(call.attrs))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  const size_t axes = call.inputs[0].shape.rank() - 2;
  const auto strides = call.attrs.Ints("strides", std::vector<int64_t>(axes, 1));
  const auto dilations = call.attrs.Ints("dilations", std::vector<int64_t>(axes, 1));
  const auto pads = call.attrs.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  const auto output_padding = call.attrs.Ints("output_padding", std::vector<int64_t>(axes, 0));
  const std::string auto_pad = call.attrs.String("auto_pad", "NOTSET");
  if (strides.size() != axes || dilations.size() != axes || pads.size() != 2 * axes ||
      output_padding.size() != axes)
    return Reject("attribute",
                  "strides, dilations, pads or output_padding do not have the rank of x");
  // Keeps products of two of these far from overflow.
  constexpr int64_t kMost = int64_t{1} << 30;
  for (size_t i = 0; i < axes; ++i) {
    const size_t a = 3 - axes + i;
    s.stride[a] = strides[i], s.dilation[a] = dilations[i];
    if (std::min({s.stride[a], s.dilation[a], s.kernel[a]}) < 1 || pads[i] < -kMost ||
        output_padding[i] < 0 ||
        std::max({s.stride[a], s.dilation[a], s.kernel[a], s.in[a], s.out[a], pads[i],
                  output_padding[i]}) > kMost ||
        std::max({s.kernel[a] * s.dilation[a], s.out[a] * s.stride[a], s.in[a] * s.stride[a]}) >
            kMost)
      return Reject("attribute", "axis {}: stride {}, dilation {}, kernel {}, pad {}", i,
                    s.stride[a], s.dilation[a], s.kernel[a], pads[i]);
    const int64_t extent = (s.kernel[a] - 1) * s.dilation[a] + 1;
    const int64_t total = transposed
                              ? s.stride[a] * (s.in[a] - 1) + output_padding[i] + extent - s.out[a]
                              : (s.out[a] - 1) * s.stride[a] + extent - s.in[a];
    s.pad[a] = FirstPad(auto_pad, pads[i], total, transposed && call.attrs.Has("output_shape"));
  }
  constexpr int64_t kMaxPhases = 4096;
  if (transposed && CheckedProduct(s.stride).value_or(kMost) > kMaxPhases)
    return Reject("attribute", "more than {} phases (the product of the strides)", kMaxPhases);
  return std::nullopt;
}

}  // namespace evoq
