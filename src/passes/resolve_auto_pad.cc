#include <algorithm>

#include "passes/match.h"

namespace evoq {
namespace {

// Window sizes: the attribute, or the weights' spatial sizes.
std::optional<std::vector<int64_t>> KernelShape(const Graph& graph, const Node& node) {
  if (node.attrs.Has("kernel_shape")) return node.attrs.Ints("kernel_shape");
  if (!node.input(1).valid()) return std::nullopt;
  const Shape& w = graph.value(node.input(1)).type.shape;
  if (!w.ranked() || w.rank() < 3 || !w.is_static()) return std::nullopt;
  const auto sizes = w.sizes();
  return std::vector<int64_t>(sizes.begin() + 2, sizes.end());
}

// Padding of both sides together along one axis, or nothing when it depends on an unknown size.
//   forward:   out = ceil(in / stride), total = max((out - 1) * stride + (k - 1) * dilation + 1 -
//   in, 0) transposed: out = in * stride,      total = (k - 1) * dilation + 1 + output_padding -
//   stride
std::optional<int64_t> TotalPadding(const Dim& in, int64_t k, int64_t stride, int64_t dilation,
                                    bool transposed, int64_t output_padding) {
  const int64_t window = (k - 1) * dilation + 1;
  if (transposed)
    return window + output_padding >= stride ? std::optional(window + output_padding - stride)
                                             : std::nullopt;
  if (stride == 1) return window - 1;
  if (!in.known()) return std::nullopt;
  const int64_t out = (in.value + stride - 1) / stride;
  return std::max<int64_t>((out - 1) * stride + window - in.value, 0);
}

std::optional<std::vector<int64_t>> Pads(const Graph& graph, const Node& node, bool upper) {
  const auto kernel = KernelShape(graph, node);
  const Shape& x = graph.value(node.input(0)).type.shape;
  if (!kernel || !x.ranked() || x.rank() != static_cast<int>(kernel->size()) + 2)
    return std::nullopt;
  const size_t n = kernel->size();
  const std::vector<int64_t> ones(n, 1), zeros(n, 0);
  const auto strides = node.attrs.Ints("strides", ones),
             dilations = node.attrs.Ints("dilations", ones);
  const auto output_padding = node.attrs.Ints("output_padding", zeros);
  if (strides.size() != n || dilations.size() != n || output_padding.size() != n)
    return std::nullopt;
  if (node.attrs.Has("output_shape")) return std::nullopt;
  std::vector<int64_t> pads(2 * n);
  for (size_t i = 0; i < n; ++i) {
    const auto total = TotalPadding(x[static_cast<int>(i) + 2], (*kernel)[i], strides[i],
                                    dilations[i], node.op == "ConvTranspose", output_padding[i]);
    if (!total) return std::nullopt;
    pads[i] = upper ? *total / 2 : *total - *total / 2;
    pads[n + i] = *total - pads[i];
  }
  return pads;
}

bool Resolve(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!OpOf(node).spatial || !node.attrs.Has("auto_pad") || node.attrs.Int("channels_last") != 0)
    return false;
  const std::string mode = node.attrs.String("auto_pad");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const auto pads = Pads(graph, node, mode == "SAME_UPPER");
    if (!pads) return false;
    graph.attrs(id).Set("pads", *pads);
    graph.attrs(id).Erase("ceil_mode");  // the padded size divides exactly, or nothing is padded
                                         // and SAME rounds up itself
  } else if (mode == "VALID") {
    graph.attrs(id).Erase("pads");
  } else if (mode != "NOTSET" && !mode.empty()) {
    return false;
  }
  graph.attrs(id).Erase("auto_pad");
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) changes += Resolve(graph, id);
  return changes;
}

}  // namespace

extern const PassDef kResolveAutoPad = {
    .name = "resolve-auto-pad",
    .doc = "Writes auto_pad as explicit pads where the spatial sizes decide them.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
