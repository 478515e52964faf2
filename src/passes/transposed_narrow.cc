// A ConvTranspose with few output channels whose kernel is as large as some strides: each input
// pixel has outputs of its own for each place within a stride, so it is a convolution with an
// output channel for each of them, which fills the columns of a tile. DepthToSpace, or on one axis
// a Reshape of channels-last values, puts them in their places.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "passes/match.h"
#include "passes/transposed.h"

namespace evoq {
namespace {

constexpr int64_t kTile = 16;  // columns that a product computes together

struct Window {
  int64_t in = 0, out = 0;                  // channels
  int64_t stride = 0;                       // of every axis
  std::vector<int64_t> kernel, first, cut;  // cut: rows before and behind, of the full output

  size_t axes() const { return kernel.size(); }
  int64_t phases() const { return axes() == 1 ? stride : stride * stride; }
  int64_t taps(size_t axis) const { return kernel[axis] / stride; }
};

bool AllAre(const std::vector<int64_t>& values, int64_t value) {
  return std::ranges::all_of(values, [&](int64_t v) { return v == value; });
}

// Real numbers as float32 or bfloat16, or as bytes with a scale.
bool IsTaken(const TensorType& type) {
  return type.quantized() ? IsByteQuantized(type)
                          : type.dtype == DType::kFloat32 || type.dtype == DType::kBfloat16;
}

// Weights of the data's precision, with a scale for all or for each output channel.
bool FitsData(const TensorType& w, const TensorType& x) {
  if (!w.quantized()) return w.dtype == x.dtype;
  return x.quantized() && DTypeBits(w.dtype) == 8 && w.quant->block == 0 &&
         (w.quant->per_tensor() || w.quant->axis == 1);
}

std::optional<Window> WindowOf(const Graph& graph, const Node& node) {
  const Tensor* w = graph.ConstantInput(node, 1);
  const TensorType& x = graph.value(node.input(0)).type;
  if (w == nullptr || !CanPermute(*w) || (w->shape().rank() != 3 && w->shape().rank() != 4) ||
      !IsTaken(x) || !FitsData(w->type(), x) || !IsTaken(graph.value(node.outputs[0]).type) ||
      node.attrs.Has("activation_slopes") || node.attrs.Int("channels_last") == 1 ||
      node.attrs.Int("group", 1) != 1 || node.attrs.Has("output_shape") ||
      node.attrs.String("auto_pad", "NOTSET") != "NOTSET")
    return std::nullopt;
  for (size_t i = 3; i < node.inputs.size(); ++i) {
    if (node.input(i).valid()) return std::nullopt;  // a residual, a table
  }
  const std::vector<int64_t> sizes = w->sizes();
  Window window{.in = sizes[0], .out = sizes[1], .kernel = {sizes.begin() + 2, sizes.end()}};
  const size_t axes = window.axes();
  const std::vector<int64_t> ones(axes, 1), zeros(2 * axes, 0),
      strides = node.attrs.Ints("strides", ones), pads = node.attrs.Ints("pads", zeros),
      more = node.attrs.Ints("output_padding", std::vector<int64_t>(axes, 0));
  if (strides.size() != axes || !AllAre(strides, strides[0]) || strides[0] < 2 ||
      !AllAre(node.attrs.Ints("dilations", ones), 1) || pads.size() != 2 * axes ||
      more.size() != axes || w->elements() == 0)
    return std::nullopt;
  window.stride = strides[0];
  const Tensor* bias = graph.ConstantInput(node, 2);
  if (node.input(2).valid() && (bias == nullptr || bias->elements() != window.out ||
                                bias->type().quantized() || !bias->layout().empty()))
    return std::nullopt;
  for (size_t a = 0; a < axes; ++a) {
    window.first.push_back(pads[a]);
    window.cut.push_back(pads[a + axes] - more[a]);
    // A tap of zero would be no tap but where it meets an infinity.
    if (window.kernel[a] % window.stride != 0 || pads[a] < 0 || window.cut[a] < 0)
      return std::nullopt;
  }
  const auto tiles = [](int64_t columns) { return CeilDiv(columns, kTile); };
  if (2 * tiles(window.phases() * window.out) > window.phases() * tiles(window.out))
    return std::nullopt;
  return window;
}

// Parameters of the weights' output channels, for `times` times as many; those of all stay.
QuantParams Repeated(const QuantParams& one, int64_t times) {
  if (one.per_tensor()) return one;
  QuantParams params;
  params.axis = 0;
  for (int64_t i = 0; i < times; ++i) {
    params.scales.insert(params.scales.end(), one.scales.begin(), one.scales.end());
    params.zero_points.insert(params.zero_points.end(), one.zero_points.begin(),
                              one.zero_points.end());
  }
  return params;
}

// [in, out, k..] -> [phases * out, in, k / s..]: output channel (i.., c) has taps i, i + s, ... of
// an axis, the last ones first.
Tensor PhaseWeights(const Tensor& w, const Window& window) {
  const bool line = window.axes() == 1;
  const int64_t s = window.stride, rows = line ? 1 : window.kernel[0],
                columns = window.kernel.back(), down = line ? 1 : rows / s, across = columns / s;
  std::vector<Dim> dims{Dim(window.phases() * window.out), Dim(window.in)};
  for (size_t a = 0; a < window.axes(); ++a) dims.push_back(Dim(window.taps(a)));
  TensorType type(w.dtype(), Shape(std::move(dims)));
  if (w.type().quantized())
    type = TensorType(w.dtype(), type.shape, Repeated(*w.type().quant, window.phases()));
  Tensor to = Tensor::Allocate(std::move(type));
  const auto bytes = static_cast<size_t>(DTypeBits(w.dtype()) / 8);
  std::byte* out = to.mutable_raw();
  for (int64_t m = 0; m < window.phases() * window.out; ++m) {
    const int64_t c = m % window.out, i = line ? 0 : m / window.out / s, j = m / window.out % s;
    for (int64_t channel = 0; channel < window.in; ++channel) {
      const int64_t from = (channel * window.out + c) * rows * columns;
      for (int64_t tap = 0; tap < down * across; ++tap, out += bytes) {
        const int64_t row = i + s * (down - 1 - tap / across),
                      column = j + s * (across - 1 - tap % across);
        std::memcpy(out, w.raw() + static_cast<size_t>(from + row * columns + column) * bytes,
                    bytes);
      }
    }
  }
  return to;
}

// [N, s * out, L] with the place within a stride before the channel -> [N, out, L * s].
ValueId OnOneAxis(Graph& graph, const Node& node, const Window& window, ValueId phases,
                  const TensorType& type) {
  const Attrs swap = Attrs::Of("perm", std::vector<int64_t>{0, 2, 1});
  const ValueId last = graph.Apply("Transpose", node.name + "_last", {phases}, swap, type),
                target = AddInts(graph, node.name + "_target", {0, -1, window.out}),
                places = graph.Apply("Reshape", node.name + "_places", {last, target}, {}, type);
  return graph.Apply("Transpose", node.name + "_first", {places}, swap, type);
}

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "ConvTranspose")) return false;
  const Node node = graph.node(id);
  const auto window = WindowOf(graph, node);
  if (!window) return false;
  std::vector<ValueId> inputs{
      node.input(0), graph.AddConstant(node.name + "_phases",
                                       PhaseWeights(*graph.ConstantInput(node, 1), *window))};
  if (const Tensor* bias = graph.ConstantInput(node, 2))
    inputs.push_back(graph.AddConstant(node.name + "_bias", Repeated(*bias, window->phases())));
  const size_t axes = window->axes();
  Attrs attrs = node.attrs;
  attrs.Erase("output_padding");
  std::vector<int64_t> kernel, pads;
  for (size_t a = 0; a < axes; ++a) kernel.push_back(window->taps(a));
  for (size_t a = 0; a < 2 * axes; ++a) pads.push_back(kernel[a % axes] - 1);
  attrs.Set("kernel_shape", kernel);
  attrs.Set("pads", pads);
  attrs.Set("strides", std::vector<int64_t>(axes, 1));
  TensorType type = graph.value(node.outputs[0]).type;  // with its scale
  type.shape = Shape::UnknownRank();
  graph.RemoveNode(id);
  ValueId y = graph.Apply("Conv", node.name, std::move(inputs), std::move(attrs), type);
  if (axes == 1) {
    y = OnOneAxis(graph, node, *window, y, type);
  } else {
    Attrs blocks;
    blocks.Set("blocksize", window->stride);
    blocks.Set("mode", "DCR");
    y = graph.Apply("DepthToSpace", node.name + "_places", {y}, blocks, type);
  }
  y = WithoutEdges(graph, node.name, y, window->first, window->cut);
  graph.SetOutput(graph.value(y).producer, 0, node.outputs[0]);
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kTransposedNarrow;
const PassDef kTransposedNarrow = {
    .name = "transposed-narrow",
    .doc = "A ConvTranspose with few output channels becomes a Conv with more and DepthToSpace.",
    .stage = Stage::kLower,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
