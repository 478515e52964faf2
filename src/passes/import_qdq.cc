// Quantization written as nodes becomes quantization written as types (docs/graph.md). Seven rules,
// until none applies:
//   Q(DQ(x))                       -> x, or one requantizing Q when the parameters differ
//   move(DQ(x)...), equal types    -> DQ(move(x...)); exact: the operator only moves values, and
//                                     what a Pad adds is one of the type's
//   Transpose(DQ(constant))        -> DQ(constant, transposed with its scales)
//   Q(move(x...))                  -> move(Q(x)...); exact: Q is monotone, element by element
//   Q?(linear(DQ(x), DQ(w), b, r)) -> linear(x, w, int32 b, r) with the Q's type, or float32
//   Q(real(DQ(x)...))              -> real(x...) with the Q's type
//   f(DQ(x))                       -> DQ(f(x)), where no other rule applies and f gives no other
//                                     real values than x's integers have: nearest Resize, Relu, a
//                                     Clip whose bounds are such values or cut none
// Linear operators that stay float behind a DQ note why (graph/float_reason.h).
// Constants under a DQ that is still there become weights-only quantization of linear operators, or
// plain float.
#include <cmath>
#include <map>
#include <set>

#include "base/budget_scope.h"
#include "graph/float_reason.h"
#include "kernels/kernel.h"
#include "kernels/requant.h"
#include "passes/linear.h"
#include "passes/qdq_bias.h"

namespace evoq {
namespace {

class Importer {
 public:
  explicit Importer(Graph& graph) : graph_(graph) {}

  Result<int> Run() {
    int total = 0;
    for (int changes = 1; changes > 0;) {
      changes = 0;
      for (NodeId id : NodesOf(graph_)) {
        if (!graph_.alive(id)) continue;
        EVOQ_ASSIGN(const bool changed, Visit(id));
        changes += changed;
      }
      // Last: a Q that another rule brings behind the node makes one integer operator of both.
      if (changes == 0)
        changes = CountChanges(
            graph_, [this](Graph&, NodeId id) { return Carries(id) && SinkDequantize(id, {0}); });
      EVOQ_TRY(graph_.Sort());
      graph_.RemoveDeadNodes();
      total += changes;
    }
    EVOQ_ASSIGN(const int settled, SettleConstants());
    return total + settled;
  }

 private:
  Result<bool> Visit(NodeId id) {
    const Node& node = graph_.node(id);
    const QuantTrait trait = OpOf(node).quant;
    if (node.outputs.empty() || !node.outputs[0].valid()) return false;
    if (IsQuantize(id)) return MergeRequantize(id);
    if (IsConversion(node) && OpOf(node).conversion != PrecisionChange::kCast) return false;
    switch (trait) {
      case QuantTrait::kFloat: return false;
      case QuantTrait::kLinear: {
        EVOQ_ASSIGN(const bool changed, QuantizeLinearNode(id));
        return changed || (TypeOf(graph_.node(id).input(0)).quantized() && TakeSlopes(graph_, id));
      }
      case QuantTrait::kMove: {
        if (SinkDequantize(id, DataInputs(node))) return true;
        EVOQ_ASSIGN(const bool transposed, TransposeConstant(id));
        return transposed ? Result<bool>(true) : HoistQuantize(id);
      }
      case QuantTrait::kReal:
      case QuantTrait::kTable: return QuantizeReal(id, trait == QuantTrait::kTable);
    }
    return false;
  }

  // ---- what stands around a node

  const TensorType& TypeOf(ValueId value) const { return graph_.value(value).type; }

  // A QuantizeLinear with its parameters in the output's type.
  bool IsQuantize(NodeId id) const {
    return IsOp(graph_, id, "QuantizeLinear") && graph_.node(id).inputs.size() == 1 &&
           TypeOf(graph_.node(id).outputs[0]).quantized();
  }
  // The quantized value that `value` is, or that it is the DequantizeLinear of; else an invalid id.
  ValueId Behind(ValueId value) const {
    if (!value.valid()) return {};
    if (TypeOf(value).quantized()) return value;
    const NodeId id = ProducedBy(graph_, value, "DequantizeLinear");
    if (!id.valid() || graph_.node(id).inputs.size() != 1) return {};
    return TypeOf(graph_.node(id).input(0)).quantized() ? graph_.node(id).input(0) : ValueId{};
  }
  // The QuantizeLinear that alone reads the node's float output, when it makes bytes with one
  // scale.
  NodeId QuantizeAfter(NodeId id) const {
    if (TypeOf(graph_.node(id).outputs[0]).quantized()) return {};
    const NodeId next = OnlyReader(graph_, id);
    return IsQuantize(next) && IsByteQuantized(TypeOf(graph_.node(next).outputs[0])) ? next
                                                                                     : NodeId{};
  }
  bool PiecewiseLinear(const Node& node) const {
    const auto product = ProductActivationFromAttrs(node.attrs);
    return product && IsPiecewiseLinear(product->activation.kind);
  }

  // Float arithmetic with a kernel is better than integer arithmetic that only the reference
  // evaluator computes.
  static bool HasIntegerKernel(const std::string& op) {
    for (const KernelDef* kernel : AllKernels()) {
      if (op == kernel->op && kernel->precision == Precision::kInt8) return true;
    }
    return false;
  }

  // ---- the rules

  bool MergeRequantize(NodeId id) {
    const ValueId in = graph_.node(id).input(0), behind = Behind(in);
    if (!behind.valid() || graph_.value(behind).is_constant()) return false;
    if (SameQuant(TypeOf(behind), TypeOf(graph_.node(id).outputs[0])) &&
        ReplaceOutput(graph_, id, behind)) {
      graph_.RemoveNode(id);
      return true;
    }
    if (behind == in) return false;
    graph_.SetInput(id, 0, behind);
    return true;
  }

  // Inputs that carry values of the kind of the output: float32 or quantized, but for Pad's value.
  std::vector<size_t> DataInputs(const Node& node) const {
    std::vector<size_t> data;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || RoleOf(node, i) == Role::kFill) continue;
      const TensorType& type = TypeOf(node.inputs[i]);
      if (type.dtype == DType::kFloat32 || type.quantized()) data.push_back(i);
    }
    return data;
  }

  // The node's output takes no real value but those of its first input's integers, whichever it
  // reads.
  bool Carries(NodeId id) const {
    const Node& node = graph_.node(id);
    const ValueId x = node.outputs.size() == 1 ? Behind(node.input(0)) : ValueId{};
    if (!x.valid() || x == node.input(0) || !IsByteQuantized(TypeOf(x))) return false;
    if (IsOp(graph_, id, "Resize")) {
      return node.attrs.String("mode", "nearest") == "nearest" &&
             node.attrs.String("coordinate_transformation_mode") != "tf_crop_and_resize";
    }
    const auto activation = ActivationOf(graph_, node);
    if (!activation || !IsPiecewiseLinear(activation->kind)) return false;
    const float scale = TypeOf(x).quant->scales[0];
    const int32_t zero = TypeOf(x).quant->zero_points[0];
    const auto low = static_cast<int32_t>(IntegerMin(TypeOf(x).dtype)),
               high = static_cast<int32_t>(IntegerMax(TypeOf(x).dtype));
    for (int32_t q = low; q <= high; ++q) {
      const float y = Apply(*activation, DequantizeValue(q, scale, zero));
      if (DequantizeValue(QuantizeValue(y, scale, zero, low, high), scale, zero) != y) return false;
    }
    return true;
  }

  // Whether what the node puts where it has no data is a real value of this type's integers.
  bool FillIsExact(const Node& node, const TensorType& type) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || RoleOf(node, i) != Role::kFill) continue;
      const auto fill = ScalarOf(graph_, node.inputs[i]);
      const float scale = type.quant->scales[0];
      const int32_t zero = type.quant->zero_points[0];
      if (!fill || !std::isfinite(*fill)) return false;
      const auto q = QuantizeValue(*fill, scale, zero, static_cast<int32_t>(IntegerMin(type.dtype)),
                                   static_cast<int32_t>(IntegerMax(type.dtype)));
      if (DequantizeValue(q, scale, zero) != *fill) return false;
    }
    return true;
  }

  // Makes DQ(f(x)...) of f(DQ(x)...), where the inputs `data` are all that f reads of real values.
  bool SinkDequantize(NodeId id, const std::vector<size_t>& data) {
    const Node node = graph_.node(id);
    if (TypeOf(node.outputs[0]).dtype != DType::kFloat32) return false;
    std::vector<ValueId> behind;
    for (size_t i : data) {
      const ValueId v = Behind(node.inputs[i]);
      if (!v.valid() || !TypeOf(v).quant->per_tensor() ||
          (!behind.empty() && !SameQuant(TypeOf(v), TypeOf(behind[0]))))
        return false;
      behind.push_back(v);
    }
    if (behind.empty() || !FillIsExact(node, TypeOf(behind[0]))) return false;
    for (size_t k = 0; k < data.size(); ++k) graph_.SetInput(id, data[k], behind[k]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (!out.valid() || TypeOf(out).dtype != DType::kFloat32) continue;
      TensorType type = TypeOf(behind[0]);
      type.shape = TypeOf(out).shape;
      const std::string name = graph_.value(out).name;
      const ValueId quantized = graph_.AddValue(name + "_quantized", type);
      graph_.SetOutput(id, i, quantized);
      graph_.AddNode({.op = "DequantizeLinear",
                      .name = name + "_dequantize",
                      .inputs = {quantized},
                      .outputs = {out}});
    }
    return true;
  }

  // Transpose(DQ(constant)) with a scale for each index or block of an axis: the constant and its
  // scales are transposed instead, so that a product reads them as weights.
  Result<bool> TransposeConstant(NodeId id) {
    if (!IsOp(graph_, id, "Transpose")) return false;
    const Node node = graph_.node(id);
    const ValueId behind = Behind(node.input(0));
    const auto perm = PermutationOf(graph_, node);
    if (!behind.valid() || behind == node.input(0) || !perm ||
        !graph_.value(behind).is_constant() || !CanPermute(graph_.value(behind).constant) ||
        graph_.IsOutput(node.outputs[0]))
      return false;
    const Value& value = graph_.value(behind);
    EVOQ_TRY(SpendMemory(static_cast<int64_t>(value.constant.bytes()), "transposed constants"));
    const ValueId moved = graph_.AddConstant(value.name, Permuted(value.constant, *perm));
    ReplaceNode(graph_, id, "DequantizeLinear", "", {moved});
    return true;
  }

  Result<bool> HoistQuantize(NodeId id) {
    const NodeId quantize = QuantizeAfter(id);
    if (!quantize.valid() || graph_.node(id).outputs.size() != 1) return false;
    const Node node = graph_.node(id);
    for (size_t i : DataInputs(node)) {
      const ValueId in = node.inputs[i];
      TensorType type = TypeOf(graph_.node(quantize).outputs[0]);
      type.shape = TypeOf(in).shape;
      const std::string name = fmt::format("{}_quantize_{}", node.name, i);
      if (const Tensor* constant = FloatConstant(graph_, in)) {
        EVOQ_ASSIGN(Tensor quantized, QuantizeTensor(*constant, type));
        graph_.SetInput(
            id, i, graph_.AddConstant(graph_.value(in).name + "_quantized", std::move(quantized)));
      } else {
        graph_.SetInput(id, i, graph_.Apply("QuantizeLinear", name, {in}, {}, type));
      }
    }
    Absorb(graph_, id, quantize);
    return true;
  }

  // The second operand of a MatMul, as in attention: bytes with one scale, and sums that int32
  // holds for certain.
  bool IsComputedOperand(const Node& node, ValueId w) const {
    const TensorType& type = TypeOf(w);
    if (graph_.value(w).is_constant() || !LinearFormOf(node)->two_operands ||
        node.input(2).valid() || !IsByteQuantized(type))
      return false;
    const int rank = type.shape.ranked() ? type.shape.rank() : 0;
    const Shape& x = TypeOf(node.input(0)).shape;
    constexpr int64_t kMaxDepth = 33000;
    return rank >= 2 && x.ranked() && x.rank() >= 2 &&
           (!type.shape[rank - 2].known() || type.shape[rank - 2].value <= kMaxDepth);
  }

  // Weights that the exact integer arithmetic takes: constants of up to 8 bits, one scale or one
  // per output channel.
  bool TakesWeights(const Node& node, ValueId w) const {
    const TensorType& type = TypeOf(w);
    if (DTypeBits(type.dtype) > 8 || !IsInteger(type.dtype)) return false;
    if (IsComputedOperand(node, w)) return true;
    if (!graph_.value(w).is_constant() ||
        (LinearFormOf(node)->two_operands && type.shape.rank() != 2))
      return false;
    if (type.quant->per_tensor()) return true;
    return type.quant->block == 0 && HasOneOutputAxis(node) &&
           type.quant->axis == WeightAxis(node, type.shape.rank());
  }

  // What an integer product reads in place of the node's constants: weights where they change, the
  // bias where there is one. Nothing where there is no integer form.
  struct Constants {
    std::optional<Tensor> weights, bias;
  };
  std::optional<Constants> IntegerConstants(const Node& node, ValueId x, ValueId w) {
    Constants made;
    const Tensor& stored = graph_.value(w).constant;
    const QuantParams& scale = *TypeOf(x).quant;
    if (node.input(2).valid()) {
      const ValueId behind = Behind(node.input(2)),
                    source = behind.valid() ? behind : node.input(2);
      if (!graph_.value(source).is_constant()) return std::nullopt;
      const Tensor& constant = graph_.value(source).constant;
      // A bias of real numbers is rounded to the steps of the sums.
      if (!constant.type().quantized()) made.weights = FinerWeights(stored);
      const int axis = HasOneOutputAxis(node) ? WeightAxis(node, stored.shape().rank()) : -1;
      if (auto raised =
              WeightsForBias(made.weights ? *made.weights : stored, constant, scale, axis))
        made.weights = std::move(raised);
      made.bias = IntegerBias(constant, scale,
                              made.weights ? *made.weights->type().quant : *TypeOf(w).quant,
                              *OutputChannels(graph_, node));
      if (!made.bias) return std::nullopt;
    }
    if (stored.defined() && !SumsFit(node, made.weights ? *made.weights : stored,
                                     made.bias ? *made.bias : Tensor(), TypeOf(x))) {
      beyond_int32_.insert(node.name);
      return std::nullopt;
    }
    return made;
  }

  Result<bool> QuantizeLinearNode(NodeId id) {
    const Node node = graph_.node(id);
    const ValueId x = Behind(node.input(0)), w = Behind(node.input(1));
    if (!IsLinear(node) || !x.valid() || !w.valid() || !IsByteQuantized(TypeOf(x)) ||
        !TakesWeights(node, w))
      return false;
    if (!PiecewiseLinear(node) || !HasIntegerKernel(node.op) ||
        (!OutputChannels(graph_, node) && !IsComputedOperand(node, w)))
      return false;
    std::optional<Constants> constants = Constants();
    const bool imported = x == node.input(0) && w == node.input(1);
    if (!imported) constants = IntegerConstants(node, x, w);
    if (!constants) return false;
    auto& [weights, bias] = *constants;
    // An integer output takes an integer residual, a float output a float one.
    const ValueId residual = node.input(3), r = Behind(residual);
    NodeId quantize = QuantizeAfter(id);
    if (residual.valid() && (!r.valid() || !IsByteQuantized(TypeOf(r)))) quantize = {};
    if (imported && !quantize.valid()) return false;
    graph_.SetInput(id, 0, x);
    graph_.SetInput(id, 1,
                    weights ? graph_.AddConstant(graph_.value(w).name, std::move(*weights)) : w);
    if (bias)
      graph_.SetInput(
          id, 2, graph_.AddConstant(graph_.value(node.input(2)).name + "_int32", std::move(*bias)));
    if (quantize.valid()) {
      if (r.valid()) graph_.SetInput(id, 3, r);
      Absorb(graph_, id, quantize);
    }
    return true;
  }

  // Constants that are parameters and not operands: they stay float.
  bool IsParameter(const Node& node, size_t i, bool table) const {
    const Role role = RoleOf(node, i);
    return i > 0 && graph_.value(node.inputs[i]).is_constant() &&
           (table || role == Role::kBound || role == Role::kParameter);
  }

  bool QuantizeReal(NodeId id, bool table) {
    const NodeId quantize = QuantizeAfter(id);
    const Node node = graph_.node(id);
    if (!quantize.valid() || node.outputs.size() != 1 || !PiecewiseLinear(node)) return false;
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i : DataInputs(node)) {
      if (IsParameter(node, i, table)) continue;
      inputs[i] = Behind(node.inputs[i]);
      if (!inputs[i].valid() || !IsByteQuantized(TypeOf(inputs[i]))) return false;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].valid()) graph_.SetInput(id, i, inputs[i]);
    }
    Absorb(graph_, id, quantize);
    return true;
  }

  // Why a linear operator with these quantized weights computes in float32, when there are integers
  // on the way to its input: else "".
  Reason WhyFloat(const Node& node, ValueId w) {
    if (const ValueId x = Behind(node.input(0)); x.valid()) {
      const std::string type = TypeOf(x).ToString();
      if (IsInteger(TypeOf(x).dtype) && DTypeBits(TypeOf(x).dtype) == 16)
        return {kSixteenBits,
                fmt::format("its input was quantized as {}, integer kernels take 8 bits", type)};
      if (DTypeBits(TypeOf(w).dtype) == 16 && IsInteger(TypeOf(w).dtype))
        return {kSixteenBits, fmt::format("its weights are {}, integer kernels take 8 bits",
                                          TypeOf(w).ToString())};
      if (!IsByteQuantized(TypeOf(x)))
        return {"types", fmt::format("its input was quantized as {}, integer kernels take 8 bits "
                                     "with one scale",
                                     type)};
      if (!TakesWeights(node, w))
        return {"types",
                fmt::format("its weights are {}, integer kernels take 8 bits with one scale "
                            "or one per output channel",
                            TypeOf(w).ToString())};
      if (beyond_int32_.contains(node.name))
        return {"depth", "its largest possible sums, with the bias, do not fit int32"};
      if (!PiecewiseLinear(node))
        return {"activation-not-quantized",
                fmt::format("{} follows it and no QuantizeLinear stands between",
                            node.attrs.String("activation"))};
      if (node.input(2).valid())
        return {"bias-not-constant",
                "its bias is not a constant of one value per output channel that fits int32"};
      return {"types", "it has no integer form with these types"};
    }
    if (!IntegersUpstream(node.input(0))) return {};
    const Node& between = graph_.node(graph_.value(node.input(0)).producer);
    return {
        "float-inputs",
        fmt::format("its input comes from {} ({}), which computes in float32: no QuantizeLinear "
                    "stands between",
                    between.name, between.op)};
  }

  // Whether something quantized, but for constants, lies up along the first inputs. Each value is
  // walked once.
  bool IntegersUpstream(ValueId at) {
    std::vector<ValueId> path;
    bool found = false;
    while (at.valid()) {
      if (const auto known = integers_upstream_.find(at); known != integers_upstream_.end()) {
        found = known->second;
        break;
      }
      path.push_back(at);
      const NodeId producer = graph_.value(at).producer;
      if (!graph_.alive(producer)) break;
      const ValueId next = graph_.node(producer).input(0);
      const bool constant = next.valid() && graph_.value(next).is_constant();
      found = TypeOf(at).quantized() || (IsOp(graph_, producer, "DequantizeLinear") && !constant);
      if (found) break;
      at = next;
    }
    for (ValueId value : path) integers_upstream_[value] = found;
    return found;
  }

  // Recurrent operators read quantized weights as they are.
  void TakeWeights(NodeId user, ValueId real, ValueId q) {
    const Node& reader = graph_.node(user);
    if (!HasRealWeights(reader) || LinearFormOf(reader) != nullptr) return;
    for (size_t i = 0; i < graph_.node(user).inputs.size(); ++i) {
      if (graph_.node(user).input(i) == real && RoleOf(graph_.node(user), i) == Role::kWeight)
        graph_.SetInput(user, i, q);
    }
  }

  Result<int> SettleConstants() {
    int changes = 0;
    for (NodeId id : NodesOf(graph_)) {
      if (!IsOp(graph_, id, "DequantizeLinear") || graph_.node(id).inputs.size() != 1) continue;
      const ValueId q = graph_.node(id).input(0), out = graph_.node(id).outputs[0];
      if (!graph_.value(q).is_constant() || graph_.IsOutput(out)) continue;
      const std::vector<NodeId> users = graph_.value(out).users;
      for (NodeId user : users) {
        const Node& reader = graph_.node(user);
        if (IsLinear(reader) && reader.input(1) == out && reader.input(0) != out &&
            !TypeOf(reader.input(0)).quantized()) {
          if (const Reason why = WhyFloat(reader, q); !why.empty())
            SetFloatReason(graph_.attrs(user), why);
          graph_.SetInput(user, 1, q);
        }
        TakeWeights(user, out, q);
      }
      if (!graph_.value(out).users.empty()) {
        EVOQ_ASSIGN(Tensor real, ToFloat32(graph_.value(q).constant));
        graph_.RemoveNode(id);
        graph_.SetConstant(out, std::move(real));
      }
      ++changes;
    }
    return changes;
  }

  Graph& graph_;
  std::map<ValueId, bool> integers_upstream_;
  std::set<std::string> beyond_int32_;  // nodes whose sums may not fit
};

Result<int> Run(Graph& graph) { return Importer(graph).Run(); }

}  // namespace

extern const PassDef kImportQdq = {
    .name = "import-qdq",
    .doc =
        "QuantizeLinear and DequantizeLinear around operators become quantized types; biases "
        "become int32.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
