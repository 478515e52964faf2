// What no kernel computes on integers or bfloat16 would fall to the reference evaluator. The
// rewrites follow the definitions of kernels/requant.h and docs/bf16.md word by word, so results
// stay equal bit for bit.
#include <algorithm>
#include <map>

#include "graph/float_reason.h"
#include "kernels/kernel.h"
#include "ops/held.h"
#include "passes/example_shapes.h"
#include "passes/match.h"
#include "reference/reference.h"

namespace evoq {
namespace {

class Fitter {
 public:
  Fitter(Graph& graph, const Graph& example) : graph_(graph), example_(example) {}

  int Run() {
    int changes = 0;
    for (NodeId id : NodesOf(graph_)) changes += Fit(id);
    return changes;
  }

 private:
  // The node as kernels see it, at the example's shapes.
  struct Call {
    std::string op;
    Attrs attrs;
    std::vector<TensorType> inputs, outputs;
    std::vector<const Tensor*> constants;

    bool HasKernel() const {
      const KernelCall call{op, attrs, inputs, outputs, constants};
      for (const KernelDef* kernel : AllKernels()) {
        if (op == kernel->op && !kernel->reject(call)) return true;
      }
      return false;
    }
  };

  Call CallOf(const Node& node) const {
    Call call{node.op, node.attrs, {}, {}, {}};
    for (ValueId in : node.inputs) {
      call.inputs.push_back(in.valid() ? example_.value(in).type : TensorType());
      call.constants.push_back(
          in.valid() && example_.value(in).is_constant() ? &example_.value(in).constant : nullptr);
    }
    for (ValueId out : node.outputs)
      call.outputs.push_back(out.valid() ? example_.value(out).type : TensorType());
    return call;
  }

  bool Fit(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& op = OpOf(node);
    if (op.view || IsQuantize(node) || IsDequantize(node)) return false;
    Call call = CallOf(node);
    bool quantized = false;
    for (const auto* types : {&call.inputs, &call.outputs}) {
      for (const TensorType& type : *types) {
        quantized |= type.quantized();
        if (type.dtype != DType::kUndefined && !type.shape.is_static()) return false;
      }
    }
    if (HasBf16(call) && !quantized && !call.HasKernel()) return Widen(id, std::move(call));
    if (!quantized || call.HasKernel()) return false;
    return op.quant == QuantTrait::kLinear ? SplitActivation(id, std::move(call))
                                           : ComputeInFloat(id, std::move(call));
  }

  // y = Q(activation(linear)) with an activation that is a table -> Q(Activation(linear with a
  // float32 output)).
  bool SplitActivation(NodeId id, Call call) {
    const auto activation = ActivationFromAttrs(call.attrs);
    if (!activation || IsPiecewiseLinear(activation->kind) || call.outputs.size() != 1)
      return false;
    if (!call.inputs[0].quantized()) return false;
    EraseActivation(call.attrs);
    call.outputs[0] = call.outputs[0].Dequantized();
    if (!call.HasKernel()) return false;
    EraseActivation(graph_.attrs(id));
    const ValueId y = graph_.node(id).outputs[0];
    const TensorType type = graph_.value(y).type;
    const std::string name = graph_.value(y).name;
    const ValueId sum = graph_.AddValue(name + "_sum", type.Dequantized());
    graph_.SetOutput(id, 0, sum);
    const bool silu = activation->kind == ActivationKind::kSilu;
    const ValueId active =
        type.quantized() ? graph_.AddValue(name + "_active", type.Dequantized()) : y;
    graph_.AddNode({.op = ActivationName(activation->kind),
                    .domain = silu ? "evoq" : "",
                    .name = name + "_activation",
                    .inputs = {sum},
                    .outputs = {active}});
    if (type.quantized())
      graph_.AddNode(
          {.op = "QuantizeLinear", .name = name + "_quantize", .inputs = {active}, .outputs = {y}});
    return true;
  }

  // Operators that are not "dequantize, compute, quantize" (kernels/requant.h).
  static bool HasIntegerDefinition(const Call& call) {
    if (call.op == "Mul" || call.op == "Softmax")
      return IsByteQuantized(call.inputs[0]) && IsByteQuantized(call.inputs.back()) &&
             IsByteQuantized(call.outputs[0]);
    return call.op == "Add" || call.op == "AveragePool" || call.op == "GlobalAveragePool" ||
           call.op == "ReduceMean";
  }

  // Dequantized inputs, float32 arithmetic, quantized outputs.
  bool ComputeInFloat(NodeId id, Call call) {
    if (HasIntegerDefinition(call)) return false;
    for (auto* types : {&call.inputs, &call.outputs}) {
      for (TensorType& type : *types) type = type.Dequantized();
    }
    std::vector<Tensor> real(call.constants.size());
    for (size_t i = 0; i < call.constants.size(); ++i) {
      if (call.constants[i] == nullptr || !call.constants[i]->type().quantized()) continue;
      auto values = ToFloat32(*call.constants[i]);
      if (!values) return false;
      real[i] = std::move(*values);
      call.constants[i] = &real[i];
    }
    if (!call.HasKernel()) return false;
    const Node node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!in.valid() || !graph_.value(in).type.quantized()) continue;
      const std::string name = graph_.value(in).name + "_real";
      graph_.SetInput(
          id, i, real[i].defined() ? graph_.AddConstant(name, real[i]) : Dequantized(in, name));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (!out.valid() || !graph_.value(out).type.quantized()) continue;
      const std::string name = graph_.value(out).name;
      const ValueId computed =
          graph_.AddValue(name + "_real", graph_.value(out).type.Dequantized());
      graph_.SetOutput(id, i, computed);
      graph_.AddNode({.op = "QuantizeLinear",
                      .name = name + "_quantize",
                      .inputs = {computed},
                      .outputs = {out}});
    }
    SetFloatReason(
        graph_.attrs(id),
        {kNoInt8Kernel, fmt::format("no integer kernel takes {} with these types", node.op)});
    return true;
  }

  static bool HasBf16(const Call& call) {
    const auto bf16 = [](const TensorType& type) { return type.dtype == DType::kBfloat16; };
    return std::any_of(call.inputs.begin(), call.inputs.end(), bf16) ||
           std::any_of(call.outputs.begin(), call.outputs.end(), bf16);
  }

  // Float32 arithmetic between Casts, as bfloat16 values are defined.
  bool Widen(NodeId id, Call call) {
    for (auto* types : {&call.inputs, &call.outputs}) {
      for (TensorType& type : *types) {
        if (type.dtype == DType::kBfloat16) type.dtype = DType::kFloat32;
      }
    }
    const Node node = graph_.node(id);
    if (OpOf(node).conversion == PrecisionChange::kCast || !call.HasKernel()) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (in.valid() && graph_.value(in).type.dtype == DType::kBfloat16)
        graph_.SetInput(id, i, Widened(in));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (!out.valid() || graph_.value(out).type.dtype != DType::kBfloat16) continue;
      const std::string name = graph_.value(out).name;
      const ValueId computed = graph_.AddValue(
          name + "_float32", TensorType(DType::kFloat32, graph_.value(out).type.shape));
      graph_.SetOutput(id, i, computed);
      graph_.AddNode({.op = "Cast",
                      .name = name + "_narrow",
                      .attrs = CastTo(DType::kBfloat16),
                      .inputs = {computed},
                      .outputs = {out}});
    }
    SetFloatReason(
        graph_.attrs(id),
        {kNoBf16Kernel, fmt::format("no bfloat16 kernel takes {} with these types", node.op)});
    return true;
  }

  static Attrs CastTo(DType dtype) { return Attrs::Of("to", static_cast<int64_t>(dtype)); }

  ValueId Widened(ValueId in) {
    const auto [it, fresh] = widened_.emplace(in, ValueId{});
    if (!fresh) return it->second;
    const Value& value = graph_.value(in);
    const std::string name = value.name + "_float32";
    if (value.is_constant()) {
      if (const auto wide = ToFloat32(value.constant))
        return it->second = graph_.AddConstant(name, *wide);
    }
    const TensorType type(DType::kFloat32, value.type.shape);
    return it->second = graph_.Apply("Cast", name, {in}, CastTo(DType::kFloat32), type);
  }

  ValueId Dequantized(ValueId in, const std::string& name) {
    const auto [it, fresh] = dequantized_.emplace(in, ValueId{});
    if (fresh)
      it->second =
          graph_.Apply("DequantizeLinear", name, {in}, {}, graph_.value(in).type.Dequantized());
    return it->second;
  }

  Graph& graph_;
  const Graph& example_;
  std::map<ValueId, ValueId> dequantized_, widened_;
};

Result<int> Run(Graph& graph) {
  bool quantized = false;
  for (NodeId id : graph.order()) {
    for (ValueId out : graph.node(id).outputs) {
      if (!out.valid()) continue;
      const TensorType& type = graph.value(out).type;
      quantized |= type.quantized() || type.dtype == DType::kBfloat16;
    }
  }
  if (!quantized) return 0;
  Graph example = graph;
  Release(example);
  // A graph that refuses the example's sizes is left as it is.
  if (!BindShapes(example, ExampleShapes(graph))) return 0;
  return Fitter(graph, example).Run();
}

}  // namespace

extern const PassDef kFitKernels = {
    .name = "fit-kernels",
    .doc =
        "Integer operators that no kernel computes: tabulated activations leave the linear "
        "operator, others compute in float32.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
