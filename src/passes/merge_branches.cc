// Networks that are trained with parallel branches and meant to run as one convolution (RepVGG:
// Ding et al., "RepVGG: Making VGG-style ConvNets Great Again", 2021; MobileOne; ACNet), exported
// before their branches were merged: a sum of convolutions of the same input is one convolution,
// and so is one with its input times a factor per channel.
#include <algorithm>
#include <cmath>

#include "passes/linear.h"

namespace evoq {
namespace {

// A plain float32 Conv with constant weights, its attributes written out.
struct Branch {
  NodeId id;
  ValueId x;
  int64_t group = 1;
  std::vector<int64_t> kernel, strides, dilations, begin, end;  // by spatial axis; padding
};

std::vector<int64_t> IntsOr(const Node& node, const char* name, size_t count, int64_t value) {
  std::vector<int64_t> ints = node.attrs.Ints(name);
  return ints.size() == count ? ints : std::vector<int64_t>(count, value);
}

// The Conv that computes `value`, which `reader` alone reads.
std::optional<Branch> BranchOf(const Graph& graph, ValueId value, NodeId reader) {
  const NodeId id = ProducedBy(graph, value, "Conv");
  if (!id.valid() || graph.OnlyUser(value) != reader || OnlyReader(graph, id) != reader)
    return std::nullopt;
  const Node& conv = graph.node(id);
  const Tensor* w = FloatConstant(graph, conv.input(1));
  if (w == nullptr || !TakesBias(graph, conv) || conv.input(3).valid() ||
      ChannelAxis(graph, conv) != 1 || conv.attrs.String("auto_pad", "NOTSET") != "NOTSET")
    return std::nullopt;
  Branch branch{.id = id, .x = conv.input(0), .group = conv.attrs.Int("group", 1)};
  const std::vector<int64_t> sizes = w->sizes();
  branch.kernel.assign(sizes.begin() + 2, sizes.end());
  const size_t spatial = branch.kernel.size();
  branch.strides = IntsOr(conv, "strides", spatial, 1);
  branch.dilations = IntsOr(conv, "dilations", spatial, 1);
  const std::vector<int64_t> pads = IntsOr(conv, "pads", 2 * spatial, 0);
  branch.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
  branch.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(spatial), pads.end());
  return branch;
}

// Where a kernel of sizes `kernel` whose taps lie `dilation` apart and whose padding before is
// `begin` stands in that of `wide`: the taps read the same pixels. Nothing where it does not fit.
std::optional<std::vector<int64_t>> PlaceIn(const Branch& wide, const Branch& small) {
  std::vector<int64_t> at;
  for (size_t i = 0; i < wide.kernel.size(); ++i) {
    const int64_t dilation = wide.dilations[i], before = wide.begin[i] - small.begin[i],
                  after = wide.end[i] - small.end[i];
    if (wide.strides[i] != small.strides[i] ||
        (small.kernel[i] > 1 && small.dilations[i] != dilation) || before < 0 || after < 0 ||
        before % dilation != 0 || after % dilation != 0)
      return std::nullopt;
    at.push_back(before / dilation);
    if (at.back() + small.kernel[i] + after / dilation != wide.kernel[i]) return std::nullopt;
  }
  return at;
}

// `into` += the weights `from`, each kernel at `at` of a wider one. Both are [outputs, inputs of a
// group, kernel...].
void AddKernels(Tensor& into, const Tensor& from, const std::vector<int64_t>& at) {
  const std::vector<int64_t> wide = into.sizes(), small = from.sizes();
  std::vector<int64_t> index(small.size(), 0);
  for (int64_t i = 0; i < from.elements(); ++i) {
    int64_t place = 0;
    for (size_t axis = 0; axis < wide.size(); ++axis)
      place = place * wide[axis] + index[axis] + (axis < 2 ? 0 : at[axis - 2]);
    into.mutable_data<float>()[place] += from.data<float>()[i];
    for (size_t axis = small.size(); axis-- > 0 && ++index[axis] == small[axis];) index[axis] = 0;
  }
}

void AddBias(Graph& graph, NodeId into, ValueId bias) {
  const Tensor* values = FloatConstant(graph, bias);
  if (values == nullptr) return;
  const auto span = values->values<float>();
  OffsetChannels(graph, into, {span.begin(), span.end()});
}

// x * factor + offset by channel, computed by Mul and Add that nothing else reads.
struct Affine {
  std::vector<float> factor, offset;
};

// Of `value`, which `op` computes for `reader` alone: the operand that is a constant per channel,
// which goes to `constant`, makes the other one `value`, and the node `reader`.
bool Peel(const Graph& graph, std::string_view op, ValueId& value, NodeId& reader,
          std::vector<float>& constant) {
  const NodeId id = ProducedBy(graph, value, op);
  if (!id.valid() || OnlyReader(graph, id) != reader || HasActivation(graph.node(id)) ||
      graph.value(value).type.quantized())
    return false;
  const Node& node = graph.node(id);
  const int rank = graph.value(value).type.shape.rank();
  for (const int side : {0, 1}) {
    auto found = PerChannel(graph, node.input(side), rank, 1, std::ssize(constant));
    if (!found) continue;
    constant = std::move(*found);
    value = node.input(1 - side);
    reader = id;
    return true;
  }
  return false;
}

// `value`, which `reader` alone reads, as an affine function of `x`; x itself for depthwise
// convolutions only: an addition at the end of others is cheaper than it seems (fuse-residual), and
// ones on the diagonal would widen the range of their weights.
std::optional<Affine> AffineOf(const Graph& graph, ValueId value, NodeId reader, ValueId x,
                               int64_t channels, bool depthwise) {
  Affine affine{std::vector<float>(channels, 1.0f), std::vector<float>(channels, 0.0f)};
  if (value == x) return depthwise ? std::optional(affine) : std::nullopt;
  Peel(graph, "Add", value, reader, affine.offset);
  if (!Peel(graph, "Mul", value, reader, affine.factor) || value != x) return std::nullopt;
  const auto finite = [](float f) { return std::isfinite(f); };
  if (!std::ranges::all_of(affine.factor, finite) || !std::ranges::all_of(affine.offset, finite))
    return std::nullopt;
  return affine;
}

// The sum of two convolutions becomes the wider one.
bool MergeConvolutions(Graph& graph, NodeId sum, const Branch& a, const Branch& b) {
  if (a.x != b.x || a.group != b.group || a.kernel.size() != b.kernel.size()) return false;
  const Node& first = graph.node(a.id);
  const Node& second = graph.node(b.id);
  if (OutputChannels(graph, first) != OutputChannels(graph, second)) return false;
  auto at = PlaceIn(a, b);
  const bool turned = !at;
  if (turned) at = PlaceIn(b, a);
  if (!at) return false;
  const NodeId into = turned ? b.id : a.id, from = turned ? a.id : b.id;
  const ValueId bias = graph.node(from).input(2);
  Tensor weights = FloatConstant(graph, graph.node(into).input(1))->Clone();
  AddKernels(weights, *FloatConstant(graph, graph.node(from).input(1)), *at);
  ReplaceConstant(graph, into, 1, std::move(weights));
  AddBias(graph, into, bias);
  Absorb(graph, into, sum);
  return true;
}

// The sum of a convolution and an affine function of its input becomes the convolution.
bool MergeAffine(Graph& graph, NodeId sum, const Branch& conv, ValueId other) {
  const Tensor& w = *FloatConstant(graph, graph.node(conv.id).input(1));
  const std::vector<int64_t> sizes = w.sizes();
  const int64_t channels = sizes[0], inputs = sizes[1];
  if (channels != inputs * conv.group) return false;
  const auto affine = AffineOf(graph, other, sum, conv.x, channels, inputs == 1);
  if (!affine) return false;
  const std::vector<int64_t> one(conv.kernel.size(), 1), none(conv.kernel.size(), 0);
  const auto at =
      PlaceIn(conv, {.kernel = one, .strides = one, .dilations = one, .begin = none, .end = none});
  if (!at || conv.strides != one) return false;
  std::vector<int64_t> small = {channels, inputs};
  small.resize(sizes.size(), 1);
  Tensor diagonal = Tensor::FromValues<float>(
      Shape(small), std::vector<float>(static_cast<size_t>(channels * inputs), 0.0f));
  for (int64_t c = 0; c < channels; ++c)
    diagonal.mutable_data<float>()[c * inputs + c % inputs] = affine->factor[c];
  Tensor weights = w.Clone();
  AddKernels(weights, diagonal, *at);
  ReplaceConstant(graph, conv.id, 1, std::move(weights));
  if (std::ranges::any_of(affine->offset, [](float f) { return f != 0; }))
    OffsetChannels(graph, conv.id, affine->offset);
  Absorb(graph, conv.id, sum);
  return true;
}

int MergeSum(Graph& graph, NodeId sum) {
  if (!IsOp(graph, sum, "Add")) return 0;
  const Node& node = graph.node(sum);
  const auto rank = [&](ValueId v) { return graph.value(v).type.shape.rank(); };
  if (HasActivation(node) || node.input(0) == node.input(1) ||
      graph.value(node.outputs[0]).type.quantized() || rank(node.input(0)) != rank(node.input(1)))
    return 0;
  const auto a = BranchOf(graph, node.input(0), sum), b = BranchOf(graph, node.input(1), sum);
  if (a && b) return MergeConvolutions(graph, sum, *a, *b) ? 1 : 0;
  if (a) return MergeAffine(graph, sum, *a, node.input(1)) ? 1 : 0;
  if (b) return MergeAffine(graph, sum, *b, node.input(0)) ? 1 : 0;
  return 0;
}

}  // namespace

extern const PassDef kMergeBranches = {
    .name = "merge-branches",
    .doc =
        "Makes one convolution of a sum of convolutions of the same input, and of its input times "
        "a factor per channel.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = [](Graph& graph) -> Result<int> { return CountChanges(graph, MergeSum); },
};

}  // namespace evoq
