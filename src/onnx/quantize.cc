#include "onnx/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "base/budget_scope.h"
#include "base/math.h"
#include "graph/value_sets.h"

namespace evoq {
namespace {

bool IsQuantize(const Node& node) {
  return node.domain.empty() && node.op == "QuantizeLinear" && node.inputs.size() >= 2;
}
bool IsDequantize(const Node& node) {
  return node.domain.empty() && node.op == "DequantizeLinear" && node.inputs.size() >= 2;
}

// Operators whose output holds integers of their data inputs and nothing else, so that one scale
// serves both sides.
bool IsMove(const Node& node) {
  constexpr std::array<std::string_view, 15> kMoves = {
      "Concat",       "DepthToSpace", "Expand",  "Flatten",   "Gather",
      "Identity",     "MaxPool",      "Pad",     "Reshape",   "Slice",
      "SpaceToDepth", "Split",        "Squeeze", "Transpose", "Unsqueeze"};
  return node.domain.empty() && std::find(kMoves.begin(), kMoves.end(), node.op) != kMoves.end();
}

// A Pad that fills with a number of its own.
bool Fills(const Node& node) {
  return node.op == "Pad" && node.attrs.String("mode", "constant") == "constant";
}

size_t DataInputs(const Node& node) { return node.op == "Concat" ? node.inputs.size() : 1; }
size_t DataOutputs(const Node& node) { return node.op == "Split" ? node.outputs.size() : 1; }

// Parameters agree: everything but the shape.
bool Same(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.quantized() && b.quantized() && *a.quant == *b.quant;
}

// Zero points; those of floating-point types are whole where ValidateQuant lets them pass.
Result<std::vector<int64_t>> IntegersOf(const Tensor& zero) {
  if (!IsTinyFloat(zero.dtype())) return ToInt64s(zero);
  EVOQ_ASSIGN(const Tensor real, ToFloat32(zero));
  std::vector<int64_t> integers;
  for (float z : real.values<float>()) {
    if (z != static_cast<float>(static_cast<int64_t>(z))) return Unsupported("zero point {}", z);
    integers.push_back(static_cast<int64_t>(z));
  }
  return integers;
}

// Scales and zero points with the axis or block that the node's attributes and the scale's shape
// give them.
std::optional<QuantParams> ParamsOf(const Node& node, const Tensor& scale, const Tensor* zero,
                                    const Shape& shape) {
  // Scales that are exponents say nothing of what the values become.
  const bool exponents = scale.dtype() == DType::kFloat8E8M0 &&
                         node.attrs.Int("output_dtype", 0) == static_cast<int>(DType::kFloat32);
  if ((scale.dtype() != DType::kFloat32 && !exponents) ||
      (zero != nullptr && zero->shape() != scale.shape() && zero->elements() != 1))
    return {};
  const auto scales = ToFloat32(scale);
  if (!scales) return {};
  QuantParams q;
  q.scales.assign(scales->data<float>(), scales->data<float>() + scales->elements());
  q.zero_points.assign(q.scales.size(), 0);
  if (zero != nullptr) {
    const auto zeros = IntegersOf(*zero);
    if (!zeros || (zeros->size() != q.scales.size() && zeros->size() != 1)) return {};
    for (size_t i = 0; i < q.scales.size(); ++i) {
      const int64_t z = (*zeros)[zeros->size() == 1 ? 0 : i];
      if (z != static_cast<int32_t>(z)) return {};
      q.zero_points[i] = static_cast<int32_t>(z);
    }
  }
  const int64_t block = node.attrs.Int("block_size", 0);
  if (q.scales.size() == 1 && scale.shape().rank() <= 1 && block == 0) return q;
  if (!shape.ranked()) return {};
  const auto axis = NormalizeAxis(node.attrs.Int("axis", 1), shape.rank());
  if (!axis) return {};
  q.axis = *axis;
  if (block == 0) {
    if (scale.shape().rank() != 1) return {};
    return q;
  }
  if (block < 0 || scale.shape().rank() != shape.rank()) return {};
  for (int i = 0; i < shape.rank(); ++i) {
    if (!shape[i].known()) return {};
    const int64_t wanted = i == *axis ? CeilDiv(shape[i].value, block) : shape[i].value;
    if (scale.shape()[i].value != wanted) return {};
  }
  q.block = block;
  return q;
}

// Where the scale of element i of integers of these sizes stands.
class ScaleOfElement {
 public:
  ScaleOfElement(const std::vector<int64_t>& sizes, const QuantParams& q)
      : per_tensor_(q.per_tensor()), by_block_(q.block > 0), block_(std::max<int64_t>(q.block, 1)) {
    if (per_tensor_) return;
    size_ = sizes[static_cast<size_t>(q.axis)];
    for (size_t i = static_cast<size_t>(q.axis) + 1; i < sizes.size(); ++i) inner_ *= sizes[i];
    blocks_ = CeilDiv(size_, block_);
  }
  // Whether there are as many scales as channels.
  bool Fits(const QuantParams& q) const {
    return per_tensor_ || by_block_ || size_ == static_cast<int64_t>(q.scales.size());
  }
  size_t operator()(int64_t i) const {
    if (per_tensor_) return 0;
    const int64_t at = i / inner_ % size_ / block_;
    return static_cast<size_t>(by_block_ ? (i / inner_ / size_ * blocks_ + at) * inner_ + i % inner_
                                         : at);
  }

 private:
  bool per_tensor_, by_block_;
  int64_t block_, size_ = 1, inner_ = 1, blocks_ = 1;
};

// The same values with scales above 0, which types want. What has the scale 0 (dead weights) holds
// only zeros: integers at the zero point, at scale 1. Of a negative one (other quantizers let the
// longer end of the integers hold the largest value, whatever its sign) the bits of integers and
// zero point are turned: (~q) - (~z) = -(q - z).
Tensor WithPositiveScales(const Tensor& integers, QuantParams& q) {
  const int bits = DTypeBits(integers.dtype());
  const bool positive = std::ranges::all_of(q.scales, [](float scale) { return !(scale <= 0); });
  const ScaleOfElement scale_of(integers.sizes(), q);
  if (bits > 8 || positive || !IsInteger(integers.dtype()) || !scale_of.Fits(q)) return integers;
  Tensor clean = Tensor::Allocate(integers.type());
  for (int64_t i = 0; i < clean.elements(); ++i) {
    const size_t s = scale_of(i);
    int value =
        bits == 8 ? static_cast<int>(integers.raw()[i]) : PackedBits(integers.raw(), i, bits);
    if (q.scales[s] < 0) value = ~value;
    if (q.scales[s] == 0) value = q.zero_points[s];
    if (bits == 8) {
      clean.mutable_raw()[i] = static_cast<std::byte>(value & 0xff);
    } else {
      SetPackedBits(clean.mutable_raw(), i, bits, value & ((1 << bits) - 1));
    }
  }
  const int32_t turned = IsSigned(integers.dtype()) ? -1 : (1 << bits) - 1;
  for (size_t s = 0; s < q.scales.size(); ++s) {
    if (q.scales[s] < 0) q.zero_points[s] = turned - q.zero_points[s];
    q.scales[s] = q.scales[s] == 0 ? 1.0f : std::fabs(q.scales[s]);
  }
  return clean;
}

// A Clip between integers that a QuantizeLinear makes, as networks of fewer than 8 bits are written
// (Brevitas' QCDQ): the same bounds as real numbers, in front of it. Nothing where they do not give
// the same integers for every x: bounds that cross or leave out the zero point (NaN becomes it),
// several scales, other readers.
class ClipsInFront {
 public:
  explicit ClipsInFront(Graph& graph) : graph_(graph) {}

  Status Run() {
    const std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) {
      if (IsQuantize(graph_.node(id))) Move(id);
    }
    return graph_.Sort();
  }

 private:
  // The bound of a Clip; `fallback` where it has none.
  std::optional<int64_t> Bound(const Node& clip, size_t i, int64_t fallback) const {
    if (!clip.input(i).valid()) return fallback;
    const Tensor* bound = graph_.ConstantInput(clip, i);
    if (bound == nullptr || bound->elements() != 1) return {};
    const auto value = ToInt64s(*bound);
    return value ? std::optional((*value)[0]) : std::nullopt;
  }

  void Move(NodeId id) {
    const auto type = ConstantQuantType(graph_, graph_.node(id));
    const ValueId integers =
        graph_.node(id).outputs.empty() ? ValueId{} : graph_.node(id).outputs[0];
    const NodeId at = integers.valid() ? graph_.OnlyUser(integers) : NodeId{};
    if (!type || !type->quant->per_tensor() || DTypeBits(type->dtype) > 16 || !at.valid()) return;
    const Node clip = graph_.node(at);
    if (clip.op != "Clip" || !clip.domain.empty() || clip.input(0) != integers) return;
    const int64_t limits[] = {IntegerMin(type->dtype), IntegerMax(type->dtype)};
    const int64_t zero = type->quant->zero_points[0];
    std::optional<float> bounds[2];
    for (size_t i : {1, 2}) {
      const auto bound = Bound(clip, i, limits[i - 1]);
      if (!bound || (i == 1 ? *bound > zero : *bound < zero)) return;
      const float scale = type->quant->scales[0], real = static_cast<float>(*bound - zero) * scale;
      if (std::nearbyint(real / scale) != static_cast<float>(*bound - zero)) return;
      bounds[i - 1] = *bound == limits[i - 1] ? std::nullopt : std::optional(real);
    }
    if (bounds[0] || bounds[1]) {
      const ValueId x = graph_.node(id).input(0);
      std::vector<ValueId> inputs = {x};
      for (const auto& bound : bounds) {
        inputs.push_back(bound ? graph_.AddConstant(clip.name + "_bound", Tensor::Scalar(*bound))
                               : ValueId{});
      }
      graph_.SetInput(
          id, 0,
          graph_.Apply("Clip", clip.name + "_real", std::move(inputs), {}, graph_.value(x).type));
    }
    graph_.ReplaceUses(clip.outputs[0], integers);
    graph_.RemoveNode(at);
  }

  Graph& graph_;
};

class Typer {
 public:
  explicit Typer(Graph& graph)
      : graph_(graph), types_(graph.value_count()), groups_(graph.value_count()) {}

  Status Run() {
    Propose();
    Tie();
    Decide();
    for (int i = 0; i < static_cast<int>(types_.size()); ++i) {
      const ValueId id{i};
      if (types_[i])
        graph_.SetType(
            id, TensorType(types_[i]->dtype, graph_.value(id).type.shape, *types_[i]->quant));
    }
    const std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) {
      if (IsQuantize(graph_.node(id))) RewriteQuantize(id);
      if (IsDequantize(graph_.node(id))) EVOQ_TRY(RewriteDequantize(id));
      if (IsMove(graph_.node(id)) && Fills(graph_.node(id))) RewriteFill(id);
    }
    return graph_.Sort();
  }

 private:
  std::optional<TensorType>& TypeOf(ValueId id) { return types_[id.index]; }

  // What each quantizing and dequantizing node would have its integers be; a value takes the first
  // proposal.
  void Propose() {
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!IsQuantize(node) && !IsDequantize(node)) continue;
      const ValueId integers = IsQuantize(node) ? node.outputs[0] : node.inputs[0];
      if (graph_.value(integers).is_constant()) continue;
      const auto& proposed = proposals_[id.index] = ConstantQuantType(graph_, node);
      if (!TypeOf(integers)) TypeOf(integers) = proposed;
    }
  }

  // Joins the values of each operator that moves integers; one with an omitted input moves none.
  void Tie() {
    moved_.resize(types_.size());
    broken_.resize(types_.size());
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!IsMove(node)) continue;
      std::vector<ValueId> data;
      for (size_t i = 0; i < DataOutputs(node); ++i) data.push_back(node.outputs[i]);
      std::erase_if(data, [](ValueId v) { return !v.valid(); });
      // What a Pad fills with becomes one of the type's integers.
      bool whole =
          !Fills(node) || !node.input(2).valid() || graph_.ConstantInput(node, 2) != nullptr;
      for (size_t i = 0; i < DataInputs(node); ++i) {
        whole &= node.input(i).valid();
        if (node.input(i).valid()) data.push_back(node.input(i));
      }
      for (ValueId v : data) {
        groups_.Join(v, data[0]);
        moved_[v.index] = true;
        if (!whole) broken_[v.index] = true;
      }
    }
  }

  // Whether a writer or reader of `id` takes it as integers of this type.
  bool Agrees(NodeId at, ValueId id, const TensorType& type) const {
    const Node& node = graph_.node(at);
    if (IsQuantize(node) || IsDequantize(node)) {
      const auto proposed = proposals_.find(at.index);
      return (IsQuantize(node) ? node.outputs[0] : node.inputs[0]) == id &&
             proposed != proposals_.end() && proposed->second && Same(*proposed->second, type);
    }
    if (!IsMove(node) || (Fills(node) && !type.quant->per_tensor())) return false;
    for (size_t i = DataInputs(node); i < node.inputs.size(); ++i) {
      if (node.inputs[i] == id) return false;
    }
    for (size_t i = DataOutputs(node); i < node.outputs.size(); ++i) {
      if (node.outputs[i] == id) return false;
    }
    return true;
  }

  // Gives each group the type that is proposed in it, where all its values, their writers and their
  // readers agree.
  void Decide() {
    const int count = static_cast<int>(types_.size());
    std::vector<std::optional<TensorType>> wanted(types_.size());  // by group
    for (int i = 0; i < count; ++i) {
      if (types_[i] && !wanted[groups_.Find(ValueId{i})])
        wanted[groups_.Find(ValueId{i})] = types_[i];
    }
    std::vector<bool> refused(types_.size());
    for (int i = 0; i < count; ++i) {
      const ValueId id{i};
      const int group = groups_.Find(id);
      if (!wanted[group] || refused[group]) continue;
      const TensorType& type = *wanted[group];
      const Value& value = graph_.value(id);
      bool agrees = !value.is_constant() && !broken_[i] &&
                    (types_[i] ? Same(*types_[i], type) : value.type.dtype == type.dtype);
      if (moved_[i]) agrees &= type.quant->per_tensor();
      if (agrees && value.producer.valid()) agrees = Agrees(value.producer, id, type);
      for (size_t u = 0; agrees && u < value.users.size(); ++u)
        agrees = Agrees(value.users[u], id, type);
      refused[group] = !agrees;
    }
    for (int i = 0; i < count; ++i) {
      const int group = groups_.Find(ValueId{i});
      types_[i] = refused[group] ? std::nullopt : wanted[group];
    }
  }

  // Puts a one-input node in the place of a node in ONNX form.
  void ReplaceByShortForm(NodeId id, ValueId input) {
    Node node = graph_.node(id);
    node.inputs = {input};
    for (const char* attr : {"axis", "block_size", "output_dtype", "saturate", "precision"})
      node.attrs.Erase(attr);
    graph_.RemoveNode(id);
    graph_.AddNode(std::move(node));
  }

  void RewriteQuantize(NodeId id) {
    const Node& node = graph_.node(id);
    if (TypeOf(node.outputs[0])) ReplaceByShortForm(id, node.inputs[0]);
  }

  // The integer that a Pad of typed values fills with gets their type; an omitted one is 0.
  void RewriteFill(NodeId id) {
    const ValueId out = graph_.node(id).outputs[0];
    if (static_cast<size_t>(out.index) >= types_.size() || !TypeOf(out)) return;
    const TensorType type(TypeOf(out)->dtype, Shape{}, *TypeOf(out)->quant);
    const Tensor* fill = graph_.ConstantInput(graph_.node(id), 2);
    const Tensor integer =
        fill != nullptr ? *fill : Tensor::Allocate(TensorType(type.dtype, Shape{}));
    if (integer.elements() != 1 || integer.dtype() != type.dtype) return;
    graph_.SetInput(id, 2,
                    graph_.AddConstant(graph_.node(id).name + "_fill", integer.WithType(type)));
  }

  Status RewriteDequantize(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId integers = node.inputs[0];
    const Value& value = graph_.value(integers);
    if (!value.is_constant()) {
      if (static_cast<size_t>(integers.index) < types_.size() && TypeOf(integers))
        ReplaceByShortForm(id, integers);
      return {};
    }
    const Tensor* scale = graph_.ConstantInput(node, 1);
    const Tensor* zero = graph_.ConstantInput(node, 2);
    if (scale == nullptr || (zero == nullptr && node.input(2).valid())) return {};
    auto params = ParamsOf(node, *scale, zero, value.type.shape);
    if (!params) return {};
    const QuantParams written = *params;
    const Tensor clean = WithPositiveScales(value.constant, *params);
    const TensorType type(value.type.dtype, value.type.shape, std::move(*params));
    if (!ValidateQuant(type)) return {};
    // Another reader may see other parameters in the same integers: each set of parameters is a
    // constant of its own.
    for (const auto& [params_known, known] : typed_[integers.index]) {
      if (!(params_known == written)) continue;
      ReplaceByShortForm(id, known);
      return {};
    }
    EVOQ_TRY(
        SpendMemory(static_cast<int64_t>(clean.raw() == value.constant.raw() ? 0 : clean.bytes()) +
                        static_cast<int64_t>(scale->bytes()) * 2,
                    "quantized constants"));
    const Tensor typed = clean.WithType(type);
    const std::string name = value.name + "_quantized";
    const ValueId constant = graph_.AddConstant(name, typed);
    typed_[integers.index].emplace_back(written, constant);
    ReplaceByShortForm(id, constant);
    return {};
  }

  Graph& graph_;
  std::vector<std::optional<TensorType>> types_;            // by value, of the graph as it came
  std::map<int32_t, std::optional<TensorType>> proposals_;  // of quantizing and dequantizing nodes
  // Values that operators tie together which only move integers: one type fits all of a group, or
  // none gets it.
  ValueSets groups_;
  std::vector<bool> moved_, broken_;  // by value
  // constant -> its quantized versions, each by the parameters as they are written
  std::map<int32_t, std::vector<std::pair<QuantParams, ValueId>>> typed_;
};

}  // namespace

std::optional<TensorType> ConstantQuantType(const Graph& graph, const Node& node) {
  const Tensor* scale = graph.ConstantInput(node, 1);
  const Tensor* zero = graph.ConstantInput(node, 2);
  if (scale == nullptr || (zero == nullptr && node.input(2).valid()) || !node.input(0).valid() ||
      node.outputs.empty() || !node.outputs[0].valid())
    return {};
  DType dtype = graph.value(node.inputs[0]).type.dtype;
  if (node.op == "QuantizeLinear") {
    if (dtype != DType::kFloat32) return {};  // the one-input form takes real numbers
    dtype = zero != nullptr ? zero->dtype() : DType::kUint8;
    if (const int64_t number = node.attrs.Int("output_dtype", 0); number != 0 && zero == nullptr)
      dtype = DTypeFromOnnx(static_cast<int>(number)).value_or(DType::kUndefined);
  }
  if (!IsInteger(dtype)) return {};  // of floats only constants are quantized types
  const Shape& shape = graph.value(node.inputs[0]).type.shape;
  auto params = ParamsOf(node, *scale, zero, shape);
  if (!params) return {};
  TensorType type(dtype, shape, std::move(*params));
  if (!ValidateQuant(type)) return {};
  return type;
}

Status TypeQuantizedValues(Graph& graph) {
  EVOQ_TRY(ClipsInFront(graph).Run());
  return Typer(graph).Run();
}

}  // namespace evoq
