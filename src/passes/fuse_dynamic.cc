// Dynamic quantization as exporters write it,
//   q, s, z = DynamicQuantizeLinear(x);  Mul(Cast(ConvInteger(q, w, z, w_zero)), Mul(s, w_scale))
//   [+ bias] [+ residual] [activation]
// becomes one step: evoq::DynamicConv(q, w, bias, residual, s, z), with scales and zero points in
// the type of w. MatMulInteger alike.
#include <algorithm>
#include <cmath>
#include <map>

#include "passes/linear.h"

namespace evoq {
namespace {

// What follows the integer sums, as far as it was recognized.
struct Tail {
  NodeId last;                // the node whose output the new one takes
  ValueId x_scale;            // invalid: 1
  std::vector<float> scales;  // of the weights, one per channel
};

// The weights with scales that were made of a constant: products of the same weights share them.
using WeightsOf = std::map<ValueId, std::vector<ValueId>>;

class Fuser {
 public:
  Fuser(Graph& graph, NodeId id, WeightsOf& made) : graph_(graph), id_(id), made_(made) {}

  bool Run() {
    const Node& node = graph_.node(id_);
    form_ = LinearFormOf(node);
    const Tensor* w = graph_.ConstantInput(node, 1);
    if (w == nullptr || !w->layout().empty() || w->type().quantized() ||
        node.attrs.Int("channels_last") != 0)
      return false;
    if (w->shape().rank() < 2 || (!form_->grouped && w->shape().rank() != 2)) return false;
    channels_ = w->shape()[WeightAxis(node, w->shape().rank())].value;
    rank_ = graph_.value(node.outputs[0]).type.shape.ranked()
                ? graph_.value(node.outputs[0]).type.shape.rank()
                : 0;
    if (rank_ == 0 || channels_ == 0 || !OneElement(node.input(2))) return false;
    const auto tail = ScalesBehind();
    if (!tail) return false;
    const auto weights = Weights(*w, tail->scales);
    if (!weights) return false;
    Replace(*tail, *weights);
    Extend();
    return true;
  }

 private:
  bool OneElement(ValueId value) const {
    return !value.valid() || graph_.value(value).type.shape.elements() == 1;
  }

  // One value per channel of a constant that broadcasts along the output's channels.
  std::optional<std::vector<float>> Channels(ValueId value) const {
    return PerChannel(graph_, value, rank_, ChannelAxis(graph_.node(id_), rank_), channels_);
  }

  // The other operand of a Mul.
  static ValueId Other(const Node& mul, ValueId operand) {
    return mul.input(mul.input(0) == operand ? 1 : 0);
  }

  // `value` as computed scale * constant; either may be missing.
  bool Split(ValueId value, Tail& tail) const {
    if (const auto constant = Channels(value)) {
      for (int64_t c = 0; c < channels_; ++c) tail.scales[c] *= (*constant)[c];
      return true;
    }
    const NodeId mul = ProducedBy(graph_, value, "Mul");
    if (mul.valid() && !tail.x_scale.valid()) {
      for (size_t i : {size_t{0}, size_t{1}}) {
        const auto constant = Channels(graph_.node(mul).input(i));
        const ValueId scale = graph_.node(mul).input(1 - i);
        if (!constant || graph_.value(scale).type.shape.elements() != 1) continue;
        for (int64_t c = 0; c < channels_; ++c) tail.scales[c] *= (*constant)[c];
        tail.x_scale = scale;
        return true;
      }
    }
    if (tail.x_scale.valid() || graph_.value(value).type.shape.elements() != 1) return false;
    tail.x_scale = value;
    return graph_.value(value).type.dtype == DType::kFloat32;
  }

  // Cast to float32, then one Mul by x_scale * w_scale or two by one of them each.
  std::optional<Tail> ScalesBehind() const {
    const NodeId cast = OnlyReader(graph_, id_);
    if (!IsOp(graph_, cast, "Cast") ||
        graph_.value(graph_.node(cast).outputs[0]).type.dtype != DType::kFloat32)
      return std::nullopt;
    Tail tail{cast, {}, std::vector<float>(channels_, 1.0f)};
    for (int muls = 0; muls < 2; ++muls) {
      const NodeId mul = OnlyReader(graph_, tail.last);
      if (!IsOp(graph_, mul, "Mul")) break;
      const ValueId in = graph_.node(tail.last).outputs[0], factor = Other(graph_.node(mul), in);
      if (factor == in || !SameShape(graph_.value(in).type.shape,
                                     graph_.value(graph_.node(mul).outputs[0]).type.shape))
        break;
      if (!Split(factor, tail)) break;
      tail.last = mul;
    }
    return tail.last == cast ? std::nullopt : std::optional(tail);
  }

  // The weights with their scales and zero points as type.
  std::optional<Tensor> Weights(const Tensor& w, const std::vector<float>& scales) const {
    QuantParams quant{scales, std::vector<int32_t>(scales.size(), 0),
                      WeightAxis(graph_.node(id_), w.shape().rank()), 0};
    if (const ValueId zero = graph_.node(id_).input(3); zero.valid()) {
      const auto zeros = IntsOf(graph_, zero);
      if (!zeros || (zeros->size() != 1 && zeros->size() != scales.size())) return std::nullopt;
      for (size_t c = 0; c < scales.size(); ++c)
        quant.zero_points[c] = static_cast<int32_t>((*zeros)[zeros->size() == 1 ? 0 : c]);
    }
    const auto equal = [](const auto& v) {
      return std::adjacent_find(v.begin(), v.end(), std::not_equal_to<>()) == v.end();
    };
    if (equal(quant.scales) && equal(quant.zero_points))
      quant = QuantParams::PerTensor(quant.scales[0], quant.zero_points[0]);
    TensorType type(w.dtype(), w.shape(), std::move(quant));
    if (!ValidateQuant(type)) return std::nullopt;
    return w.WithType(std::move(type));
  }

  void Replace(const Tail& tail, const Tensor& weights) {
    const Node node = graph_.node(id_);
    const std::string name = graph_.value(node.input(1)).name;
    const ValueId one = tail.x_scale.valid() ? tail.x_scale : AddFloat(graph_, name + "_one", 1.0f);
    Attrs attrs = node.attrs;
    const ValueId w = Constant(node.input(1), name, weights);
    graph_.RenameNode(id_, node.name + "_sums");
    std::vector<ValueId> inputs = {node.input(0), w, {}, {}, one};
    if (node.input(2).valid()) inputs.push_back(node.input(2));
    id_ = ReplaceNode(graph_, tail.last, form_->dynamic_form, "evoq", std::move(inputs),
                      std::move(attrs));
    graph_.RenameNode(id_, node.name);
  }

  ValueId Constant(ValueId of, const std::string& name, const Tensor& weights) {
    std::vector<ValueId>& made = made_[of];
    const auto found = std::ranges::find_if(
        made, [&](ValueId w) { return graph_.value(w).type == weights.type(); });
    if (found != made.end()) return *found;
    made.push_back(graph_.AddConstant(name, weights));
    return made.back();
  }

  ValueId Output() const { return graph_.node(id_).outputs[0]; }

  // Bias, residual and activation, in this order, each at most once.
  void Extend() {
    if (const NodeId add = NextAdd(); add.valid()) {
      if (const auto bias = Channels(Other(graph_.node(add), Output()))) {
        graph_.SetInput(id_, 2,
                        graph_.AddConstant(graph_.node(id_).name + "_bias",
                                           Tensor::FromValues<float>(Shape{channels_}, *bias)));
        Take(add);
      }
    }
    if (const NodeId add = NextAdd(); add.valid() && !HasActivation(graph_.node(id_))) {
      const ValueId other = Other(graph_.node(add), Output());
      const TensorType& type = graph_.value(other).type;
      if (other != Output() && !graph_.value(other).is_constant() &&
          type.dtype == DType::kFloat32 &&
          SameShape(type.shape, graph_.value(Output()).type.shape)) {
        graph_.SetInput(id_, 3, other);
        Take(add);
      }
    }
    const NodeId next = OnlyReader(graph_, id_);
    if (!graph_.alive(next) || graph_.node(next).input(0) != Output() ||
        HasActivation(graph_.node(id_)))
      return;
    const auto activation = ActivationOf(graph_, graph_.node(next));
    if (!activation || graph_.value(graph_.node(next).outputs[0]).type.quantized()) return;
    ActivationToAttrs(*activation, graph_.attrs(id_));
    evoq::Absorb(graph_, id_, next);
  }

  // The Add of this shape, perhaps with an activation of its own, that alone reads the output.
  NodeId NextAdd() const {
    const NodeId next = OnlyReader(graph_, id_);
    if (!IsOp(graph_, next, "Add") || HasActivation(graph_.node(id_))) return {};
    const TensorType& type = graph_.value(graph_.node(next).outputs[0]).type;
    return !type.quantized() && SameShape(type.shape, graph_.value(Output()).type.shape) ? next
                                                                                         : NodeId{};
  }

  // `add` becomes part of the node, with its activation.
  void Take(NodeId add) {
    for (const auto& [name, value] : graph_.node(add).attrs) graph_.attrs(id_).Set(name, value);
    evoq::Absorb(graph_, id_, add);
  }

  Graph& graph_;
  NodeId id_;
  WeightsOf& made_;
  const LinearForm* form_ = nullptr;
  int rank_ = 0;
  int64_t channels_ = 0;
};

bool HasDynamicForm(const Graph& graph, NodeId id) {
  if (!graph.alive(id)) return false;
  const LinearForm* form = LinearFormOf(graph.node(id));
  return form != nullptr && form->dynamic_form != nullptr;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  WeightsOf made;
  for (NodeId id : NodesOf(graph)) {
    if (HasDynamicForm(graph, id)) changes += Fuser(graph, id, made).Run();
  }
  return changes;
}

// ---- fuse-bytes

// The two bytes that a quantization of x and the QuantizeLinear of what it leaves make of x.
struct TwoBytes {
  const char* op;  // that makes both
  NodeId first, second;
  const char* attribute;
  float step;
  NodeId scale;  // computes the second one's scale; invalid: it is a constant
};

bool SameScalar(const Graph& graph, ValueId a, ValueId b) {
  if (a == b) return true;
  const auto x = ScalarOf(graph, a), y = ScalarOf(graph, b);
  return x && y && *x == *y;
}

// The one element of an integer constant.
std::optional<int64_t> IntOf(const Graph& graph, ValueId value) {
  const auto found = value.valid() ? IntsOf(graph, value) : std::nullopt;
  return found && found->size() == 1 ? std::optional(found->front()) : std::nullopt;
}

// A QuantizeLinear to plain uint8 by a scale and a zero point that are constants, one each.
bool QuantizesToByte(const Graph& graph, const Node& node) {
  const TensorType& type = graph.value(node.outputs[0]).type;
  return type.dtype == DType::kUint8 && !type.quantized() && node.inputs.size() == 3 &&
         ScalarOf(graph, node.inputs[1]) && IntOf(graph, node.inputs[2]);
}

// `second` as the QuantizeLinear(x - DequantizeLinear(q, s, z), rest_scale, 128), where q, s, z =
// DynamicQuantizeLinear(x) and rest_scale = s * ratio, or q = QuantizeLinear(x, s, z) with
// constants.
std::optional<TwoBytes> TwoBytesAt(const Graph& graph, NodeId second) {
  const Node& quantize = graph.node(second);
  const TensorType& type = graph.value(quantize.outputs[0]).type;
  if (type.dtype != DType::kUint8 || type.quantized() || quantize.inputs.size() != 3 ||
      IntOf(graph, quantize.input(2)) != 128)
    return std::nullopt;
  const NodeId sub = ProducedBy(graph, quantize.input(0), "Sub");
  if (!sub.valid()) return std::nullopt;
  const ValueId x = graph.node(sub).input(0);
  const NodeId dequantize = ProducedBy(graph, graph.node(sub).input(1), "DequantizeLinear");
  if (!dequantize.valid()) return std::nullopt;
  const Node& real = graph.node(dequantize);
  const NodeId first = graph.value(real.input(0)).producer;
  if (!graph.alive(first) || graph.node(first).input(0) != x || real.inputs.size() != 3)
    return std::nullopt;
  const Node& byte = graph.node(first);
  if (IsOp(graph, first, "QuantizeLinear")) {
    const auto scale = ScalarOf(graph, quantize.input(1));
    if (!QuantizesToByte(graph, byte) || !scale || !(*scale > 0) || !std::isfinite(*scale) ||
        !SameScalar(graph, real.input(1), byte.input(1)) ||
        IntOf(graph, real.input(2)) != IntOf(graph, byte.input(2)))
      return std::nullopt;
    return TwoBytes{"QuantizeBytes", first, second, "rest_scale", *scale, {}};
  }
  const NodeId mul = ProducedBy(graph, quantize.input(1), "Mul");
  if (!IsOp(graph, first, "DynamicQuantizeLinear") || !mul.valid()) return std::nullopt;
  const auto ratio = ScalarOf(graph, graph.node(mul).input(1));
  if (byte.input(1).valid() || byte.outputs.size() != 3 || real.input(0) != byte.outputs[0] ||
      real.input(1) != byte.outputs[1] || real.input(2) != byte.outputs[2] ||
      graph.node(mul).input(0) != byte.outputs[1] || !ratio || !(*ratio > 0) ||
      graph.value(quantize.input(1)).type.shape.elements() != 1)
    return std::nullopt;
  return TwoBytes{"DynamicQuantizeBytes", first, second, "ratio", *ratio, mul};
}

Result<int> RunBytes(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!IsOp(graph, id, "QuantizeLinear")) continue;
    const auto bytes = TwoBytesAt(graph, id);
    if (!bytes) continue;
    Node node = graph.node(bytes->first);
    const bool computed = bytes->scale.valid();
    node.op = bytes->op;
    node.domain = "evoq";
    node.attrs = {};
    node.attrs.Set(bytes->attribute, bytes->step);
    node.outputs.push_back(graph.node(id).outputs[0]);
    if (computed) node.outputs.push_back(graph.node(id).input(1));
    graph.RemoveNode(bytes->first);
    graph.RemoveNode(id);
    if (computed) graph.RemoveNode(bytes->scale);
    graph.AddNode(std::move(node));
    ++changes;
  }
  return changes;
}

// ---- dynamic-ranges

// The node that computed the values of `value`, behind what only renames or reorders them.
NodeId Source(const Graph& graph, ValueId value) {
  for (;;) {
    const NodeId id = graph.value(value).producer;
    if (!graph.alive(id)) return {};
    const Node& node = graph.node(id);
    const bool moves = node.op == "Transpose" || OpOf(node).view;
    if (!moves) return id;
    value = node.input(0);
  }
}

bool QuantizesAtRunTime(const Graph& graph, NodeId id) {
  if (!graph.alive(id)) return false;
  const OpDef& op = OpOf(graph.node(id));
  return op.conversion == PrecisionChange::kQuantize && op.ranges_at_run_time;
}

// The same node with a second output.
NodeId WithRange(Graph& graph, NodeId id) {
  Node node = graph.node(id);
  graph.RemoveNode(id);
  node.outputs.push_back(
      graph.AddValue(node.name + "_range", TensorType(DType::kFloat32, Shape{2})));
  return graph.AddNode(std::move(node));
}

Result<int> RunRanges(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!QuantizesAtRunTime(graph, id) || graph.node(id).input(1).valid()) continue;
    NodeId source = Source(graph, graph.node(id).input(0));
    if (!graph.alive(source) || graph.node(source).domain != "evoq" ||
        !graph.node(source).op.starts_with("Dynamic"))
      continue;
    if (graph.node(source).outputs.size() < 2) source = WithRange(graph, source);
    graph.SetInput(id, 1, graph.node(source).outputs[1]);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const PassDef kFuseDynamic, kFuseBytes, kDynamicRanges;
const PassDef kFuseDynamic = {
    .name = "fuse-dynamic",
    .doc =
        "ConvInteger or MatMulInteger with the scales, bias, residual and activation behind it "
        "becomes one step.",
    .stage = Stage::kLower,
    .level = 2,
    .run = Run,
};
const PassDef kFuseBytes = {
    .name = "fuse-bytes",
    .doc =
        "A quantization to bytes and the QuantizeLinear of what it leaves, the two bytes of 16 "
        "bits, become one step.",
    .stage = Stage::kLower,
    .level = 2,
    .run = RunBytes,
};
const PassDef kDynamicRanges = {
    .name = "dynamic-ranges",
    .doc =
        "DynamicQuantizeLinear takes the range that the dynamic Conv or MatMul before it has found "
        "while writing.",
    .stage = Stage::kLower,
    .level = 2,
    .run = RunRanges,
};

}  // namespace evoq
