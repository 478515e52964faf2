// A depthwise ConvTranspose whose kernel is as large as some strides (of integers any kernel): each
// input pixel has stride^2 outputs of its own, so it is a depthwise convolution of stride^2 copies
// of its channels, whose places DepthToSpace gives, without the rows and columns that its padding
// cuts off.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "passes/match.h"
#include "passes/transposed.h"

namespace evoq {
namespace {

struct Window {
  int64_t channels = 0, stride = 0, taps = 0;  // taps: of an axis, for one output
  int64_t more = 0;                            // taps that are zero: 8-bit kernels take 3, 5 and 7
  std::vector<int64_t> first, cut;             // of the full output: rows before, rows behind
};

std::optional<Window> WindowOf(const Graph& graph, const Node& node) {
  const Tensor* w = graph.ConstantInput(node, 1);
  const TensorType &x = graph.value(node.input(0)).type, &y = graph.value(node.outputs[0]).type;
  const auto plain = [](const TensorType& type) {
    return type.quantized() ? IsByteQuantized(type) : type.dtype == DType::kFloat32;
  };
  if (w == nullptr || !CanPermute(*w) || w->shape().rank() != 4 || !plain(x) || !plain(y) ||
      DTypeBits(w->dtype()) < 8 || node.attrs.Int("channels_last") == 1)
    return std::nullopt;
  if (w->type().quantized() && (w->type().quant->block != 0 || w->type().quant->scales.size() != 1))
    return std::nullopt;
  for (size_t i = 3; i < node.inputs.size(); ++i) {
    if (node.input(i).valid()) return std::nullopt;  // a residual, a table
  }
  const Tensor* bias = graph.ConstantInput(node, 2);
  if (node.input(2).valid() && (bias == nullptr || bias->elements() != w->sizes()[0] ||
                                bias->type().quantized() || !bias->layout().empty()))
    return std::nullopt;
  const std::vector<int64_t> sizes = w->sizes(), strides = node.attrs.Ints("strides", {1, 1}),
                             dilations = node.attrs.Ints("dilations", {1, 1}),
                             pads = node.attrs.Ints("pads", {0, 0, 0, 0}),
                             more = node.attrs.Ints("output_padding", {0, 0});
  // A tap of zero is none, but where it meets an infinity.
  const bool integers = x.quantized() && w->type().quantized();
  if (sizes[1] != 1 || node.attrs.Int("group", 1) != sizes[0] || sizes[0] < 2 ||
      sizes[2] != sizes[3] || strides.size() != 2 || strides[0] != strides[1] || strides[0] < 2 ||
      (sizes[2] % strides[0] != 0 && !integers) || dilations != std::vector<int64_t>{1, 1} ||
      pads.size() != 4 || more.size() != 2 || node.attrs.Has("output_shape") ||
      node.attrs.Has("activation_slopes") || node.attrs.String("auto_pad", "NOTSET") != "NOTSET")
    return std::nullopt;
  Window window{.channels = sizes[0], .stride = strides[0], .taps = CeilDiv(sizes[2], strides[0])};
  if (integers && window.taps < 7)
    window.more = std::max<int64_t>(3, window.taps | 1) - window.taps;
  for (size_t a = 0; a < 2; ++a) {
    window.first.push_back(pads[a]);
    window.cut.push_back(window.taps * window.stride - sizes[2] + pads[a + 2] - more[a]);
    if (window.first[a] < 0 || window.cut[a] < 0) return std::nullopt;
  }
  return window;
}

// [C, 1, k, k] -> [s s C, 1, k / s, k / s]: output channel (i, j, c) has taps i, i + s, ... and j,
// j + s, ..., the last ones first, and then those that are zero.
Tensor PhaseWeights(const Tensor& w, const Window& window) {
  const int64_t s = window.stride, t = window.taps, k = w.sizes()[2], all = t + window.more;
  TensorType type(w.dtype(), Shape{window.channels * s * s, 1, all, all});
  if (w.type().quantized())
    type = TensorType(
        w.dtype(), type.shape,
        QuantParams::PerTensor(w.type().quant->scales[0], w.type().quant->zero_points[0]));
  Tensor to = Tensor::Allocate(type);
  const auto bytes = static_cast<size_t>(DTypeBits(w.dtype()) / 8);
  std::byte* out = to.mutable_raw();
  for (int64_t m = 0; m < window.channels * s * s; ++m) {
    const int64_t c = m % window.channels, i = m / window.channels / s, j = m / window.channels % s;
    for (int64_t tap = 0; tap < all * all; ++tap, out += bytes) {
      const int64_t h = tap / all, v = tap % all, row = i + s * (t - 1 - h),
                    column = j + s * (t - 1 - v);
      if (h < t && v < t && row < k && column < k) {
        std::memcpy(out, w.raw() + static_cast<size_t>((c * k + row) * k + column) * bytes, bytes);
      } else {
        *out = static_cast<std::byte>(
            w.type().quant->zero_points[0]);  // a byte: floats have no such taps
      }
    }
  }
  return to;
}

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "ConvTranspose")) return false;
  const Node node = graph.node(id);
  const auto window = WindowOf(graph, node);
  if (!window) return false;
  const int64_t s = window->stride;
  const Tensor weights = PhaseWeights(*graph.ConstantInput(node, 1), *window);
  TensorType wide = graph.value(node.input(0)).type;  // with its scale
  wide.shape = Shape::UnknownRank();
  const Attrs channels = Attrs::Of("axis", 1);
  const ValueId x =
      graph.Apply("Concat", node.name + "_repeated",
                  std::vector<ValueId>(static_cast<size_t>(s * s), node.input(0)), channels, wide);
  std::vector<ValueId> inputs{x, graph.AddConstant(node.name + "_phases", weights)};
  if (const Tensor* bias = graph.ConstantInput(node, 2)) {
    inputs.push_back(graph.AddConstant(node.name + "_bias", Repeated(*bias, s * s)));
  }
  Attrs attrs = node.attrs;
  attrs.Erase("output_padding");
  attrs.Set("group", window->channels * s * s);
  const int64_t all = window->taps + window->more, before = window->taps - 1, behind = all - 1;
  attrs.Set("kernel_shape", std::vector<int64_t>{all, all});
  attrs.Set("pads", std::vector<int64_t>{before, before, behind, behind});
  attrs.Set("strides", std::vector<int64_t>{1, 1});
  TensorType type = graph.value(node.outputs[0]).type;  // with its scale
  type.shape = Shape::UnknownRank();
  graph.RemoveNode(id);
  const ValueId phases = graph.Apply("Conv", node.name, std::move(inputs), std::move(attrs), type);
  Attrs places;
  places.Set("blocksize", s);
  places.Set("mode", "DCR");
  ValueId y = graph.Apply("DepthToSpace", node.name + "_places", {phases}, places, type);
  y = WithoutEdges(graph, node.name, y, window->first, window->cut);
  graph.SetOutput(graph.value(y).producer, 0, node.outputs[0]);
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kTransposedDepthwise;
const PassDef kTransposedDepthwise = {
    .name = "transposed-depthwise",
    .doc = "A depthwise ConvTranspose becomes a depthwise Conv and DepthToSpace.",
    .stage = Stage::kLower,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
