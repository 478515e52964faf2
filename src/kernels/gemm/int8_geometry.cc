#include "kernels/gemm/int8_geometry.h"

#include <algorithm>

#include "base/brief.h"
#include "base/math.h"
#include "base/text.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMaxSize =
    int64_t{1} << 40;  // no dimension, stride, dilation or pad of a real model is beyond it

bool AllWithin(const Ints& values, int64_t low) {
  for (int64_t v : values) {
    if (v < low || v > kMaxSize) return false;
  }
  return true;
}

Reason BadAttribute(const char* name, const Ints& values, size_t wanted) {
  return {"attribute", fmt::format("{} is {}, expected {} values in range", name,
                                   BracketedBriefly<int64_t>(values), wanted)};
}

std::optional<Reason> StaticShapes(const KernelCall& call) {
  if (call.inputs.size() < 2 || call.outputs.empty())
    return Reason{"shape", "needs two inputs and an output"};
  for (const TensorType* type : {&call.inputs[0], &call.inputs[1], &call.outputs[0]}) {
    if (!type->shape.ranked() || !type->shape.is_static() || !type->shape.elements())
      return Reason{"shape", fmt::format("{} is not static", type->ToString())};
  }
  return std::nullopt;
}

// The pads that auto_pad stands for with these sizes, per spatial dimension; `pads` stay as they
// are without one. Sizes and dilations are at most kMaxSize and at least 0.
std::optional<Reason> ResolveAutoPad(const Attrs& attrs, const Ints& in, const Ints& kernel,
                                     const Ints& strides, const Ints& dilations, Ints& pads) {
  const std::string mode = attrs.String("auto_pad", "NOTSET");
  if (mode.empty() || mode == "NOTSET") return std::nullopt;
  if (mode == "VALID") {
    std::fill(pads.begin(), pads.end(), 0);
    return std::nullopt;
  }
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return Reason{"attribute", "auto_pad is " + mode};
  for (size_t i = 0; i < in.size(); ++i) {
    const auto span = CheckedMul(dilations[i], std::max<int64_t>(kernel[i] - 1, 0));
    if (!span || *span > kMaxSize || in[i] > kMaxSize)
      return Reason{"attribute", "the window of auto_pad is too large"};
    const int64_t last = (CeilDiv(in[i], strides[i]) - 1) * strides[i];
    const int64_t total = std::max<int64_t>(last + *span + 1 - in[i], 0);
    pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[in.size() + i] = total - pads[i];
  }
  return std::nullopt;
}

}  // namespace

std::optional<Reason> ReadConvGeometry(const KernelCall& call, Int8Geometry& g) {
  if (auto rejection = StaticShapes(call)) return rejection;
  if (call.attrs.Int("channels_last") != 1) return Reason{"layout", "channels_last is not set"};
  const Ints x = call.inputs[0].shape.sizes(), w = call.inputs[1].shape.sizes(),
             y = call.outputs[0].shape.sizes();
  const auto shapes = [&] {
    return fmt::format("x {}, w {}, y {}", call.inputs[0].shape.ToString(),
                       call.inputs[1].shape.ToString(), call.outputs[0].shape.ToString());
  };
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size() || y.size() != x.size())
    return Reason{"shape", shapes()};
  const size_t rank = x.size() - 2;
  const Ints strides = call.attrs.Ints("strides", Ints(rank, 1)),
             dilations = call.attrs.Ints("dilations", Ints(rank, 1));
  Ints pads = call.attrs.Ints("pads", Ints(2 * rank, 0));
  if (strides.size() != rank || !AllWithin(strides, 1))
    return BadAttribute("strides", strides, rank);
  if (dilations.size() != rank || !AllWithin(dilations, 1))
    return BadAttribute("dilations", dilations, rank);
  if (pads.size() != 2 * rank || !AllWithin(pads, 0)) return BadAttribute("pads", pads, 2 * rank);
  if (auto rejection = ResolveAutoPad(call.attrs, Ints(x.begin() + 1, x.end() - 1),
                                      Ints(w.begin() + 2, w.end()), strides, dilations, pads))
    return rejection;
  g.batch = x[0];
  g.channels = x.back();
  g.out_channels = w[0];
  g.group = call.attrs.Int("group", 1);
  if (!AllWithin(w, 1) || !AllWithin(x, 0) || g.channels < 1) return Reason{"shape", shapes()};
  if (g.group < 1 || g.channels % g.group != 0 || g.channels / g.group != w[1] ||
      g.out_channels % g.group != 0 || y[0] != g.batch || y.back() != g.out_channels)
    return Reason{"shape", fmt::format("{} with group {}", shapes(), g.group)};
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = 3 - rank + i;
    g.in[axis] = x[i + 1];
    g.out[axis] = y[i + 1];
    g.kernel[axis] = w[i + 2];
    g.stride[axis] = strides[i];
    g.dilation[axis] = dilations[i];
    g.pad[axis] = pads[i];
    const auto span = CheckedMul(dilations[i], w[i + 2] - 1);
    const int64_t room = span ? x[i + 1] + pads[i] + pads[rank + i] - *span - 1 : -1;
    const int64_t expected = room < 0 ? 0 : room / strides[i] + 1;
    if (y[i + 1] != expected)
      return Reason{"shape", fmt::format("{}: axis {} should be {}", shapes(), i + 1, expected)};
  }
  // The engine may copy the input with its padding.
  std::vector<int64_t> padded = {g.batch, g.group, RoundUp(g.group_channels(), 4)};
  for (int i = 0; i < 3; ++i)
    padded.push_back(
        g.out[i] == 0 ? 0 : (g.out[i] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1);
  const auto bytes = CheckedProduct(padded);
  if (!bytes || *bytes > kMaxSize)
    return Reason{"shape", fmt::format("{} is too large with its padding", shapes())};
  return std::nullopt;
}

std::optional<Reason> ReadMatMulGeometry(const KernelCall& call, Int8Geometry& g) {
  if (auto rejection = StaticShapes(call)) return rejection;
  const TensorType &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  const auto no = [&] {
    return Reason{"shape", fmt::format("a {}, b {}, y {}", a.shape.ToString(), b.shape.ToString(),
                                       y.shape.ToString())};
  };
  if (a.shape.rank() < 1 || b.shape.rank() != 2) return no();
  g.channels = b.shape[0].value;
  g.out_channels = b.shape[1].value;
  if (g.channels < 1 || g.out_channels < 1 || a.shape[a.shape.rank() - 1].value != g.channels)
    return no();
  g.batch = *a.shape.elements() / g.channels;
  const auto outputs = CheckedMul(g.batch, g.out_channels);
  if (!outputs || *outputs != *y.shape.elements()) return no();
  return std::nullopt;
}

}  // namespace evoq
