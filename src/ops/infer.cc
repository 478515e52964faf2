// Type inference of nodes and graphs.
#include <algorithm>
#include <map>

#include "base/budget_scope.h"
#include "base/math.h"
#include "ops/driver.h"
#include "ops/symbolic_sizes.h"
#include "ops/util.h"

namespace evoq {
namespace {

// Integer values that inference computes on the way (shape arithmetic) are no larger than this.
constexpr int64_t kMaxKnownElements = 1024;

// Loops run over the sizes of a tensor also where one of them is 0: the product of the others is no
// larger than this.
constexpr int64_t kMaxEmptyProduct = 1 << 26;

Status CheckSize(const TensorType& type, const char* what, size_t index) {
  // Every dimension by itself too, so that inference may add and multiply a few of them without a
  // check.
  for (const Dim& dim : type.shape.dims()) {
    if (dim.value > kMaxTensorBytes)
      return Fail(ErrorCode::kTooLarge, "{} {} would be {}, more than {} bytes", what, index,
                  type.ToString(), kMaxTensorBytes);
  }
  if (!type.shape.is_static() || !type.is_tensor()) return {};
  const auto bytes = type.bytes();
  if (!bytes || *bytes > kMaxTensorBytes)
    return Fail(ErrorCode::kTooLarge, "{} {} would be {}, more than {} bytes", what, index,
                type.ToString(), kMaxTensorBytes);
  if (*bytes > 0) return {};
  std::vector<int64_t> sizes = type.shape.sizes();
  std::erase(sizes, 0);
  const auto product = CheckedProduct(sizes);
  if (product && *product <= kMaxEmptyProduct) return {};
  return Fail(ErrorCode::kTooLarge, "{} {} is {}: no element, but sizes beyond {}", what, index,
              type.ToString(), kMaxEmptyProduct);
}

// The inferred type, with the declared quantization.
Result<TensorType> Merge(TensorType inferred, const TensorType& declared, size_t output) {
  if (!declared.quantized()) return inferred;
  if (inferred.dtype != DType::kFloat32)
    return InvalidInput("output {} is declared {} but is {}", output, declared.ToString(),
                        inferred.ToString());
  inferred.dtype = declared.dtype;
  inferred.quant = declared.quant;
  EVOQ_TRY(ValidateQuant(inferred));
  return inferred;
}

// Types and data of a node's inputs, data of computed ones where `known` has it.
struct NodeInputs {
  std::vector<TensorType> types;
  std::vector<const Tensor*> constants;

  NodeInputs(const Graph& graph, const Node& node,
             const std::map<ValueId, Tensor>* known = nullptr) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      types.push_back(id.valid() ? graph.value(id).type : TensorType());
      constants.push_back(graph.ConstantInput(node, i));
      if (known == nullptr || constants.back() != nullptr) continue;
      if (auto it = known->find(id); it != known->end()) constants.back() = &it->second;
    }
  }
};

Result<std::vector<TensorType>> InferFrom(const Node& node, const NodeInputs& in,
                                          std::span<const TensorType> declared,
                                          const Evaluator& evaluator) {
  const auto infer = [&]() -> Result<std::vector<TensorType>> {
    const OpDef* op = FindOp(node);
    if (op == nullptr) return Unsupported("evoq has no operator of this name");
    EVOQ_TRY(CheckArity(*op, node, [&](size_t i) { return node.inputs[i].valid(); }));
    for (size_t i = 0; i < in.types.size(); ++i) {
      if (node.inputs[i].valid() && in.types[i].dtype == DType::kUndefined)
        return InvalidInput("input {} has no type yet", i);
    }
    return InferOutputs(*op, node, in.types, in.constants, declared, evaluator);
  };
  return WithContext(infer(), NodeLabel(node));
}

// The value of Shape (slice [start, end) of the sizes) or Size, when the sizes that it needs are
// known.
std::optional<Tensor> SizesValue(const Node& node, const TensorType& type) {
  if (!node.domain.empty() || !type.shape.ranked() || !type.is_tensor()) return std::nullopt;
  if (node.op == "Size") {
    const auto elements = type.shape.elements();
    return elements ? std::optional(Tensor::Scalar<int64_t>(*elements)) : std::nullopt;
  }
  if (node.op != "Shape") return std::nullopt;
  const int64_t rank = type.shape.rank();
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamp(node.attrs.Int("start", 0)), end = clamp(node.attrs.Int("end", rank));
  std::vector<int64_t> sizes;
  for (int64_t i = start; i < end; ++i) {
    if (!type.shape[i].known()) return std::nullopt;
    sizes.push_back(type.shape[i].value);
  }
  return Tensor::FromValues(sizes);
}

bool IsSmall(const TensorType& type) {
  const auto elements = type.shape.elements();
  return elements && *elements <= kMaxKnownElements && !type.quantized() && type.is_tensor() &&
         type.dtype != DType::kString;
}

// Computes small integer outputs of a node whose inputs are all known, so that shapes that are
// computed in the graph (Shape, Gather, Concat, Reshape) are inferred in one walk.
void LearnValues(const Node& node, const NodeInputs& in, std::span<const TensorType> outputs,
                 std::map<ValueId, Tensor>& known, const Evaluator& evaluator) {
  if (node.outputs.empty() || !node.outputs[0].valid()) return;
  if (auto value = in.types.empty() ? std::nullopt : SizesValue(node, in.types[0])) {
    known[node.outputs[0]] = std::move(*value);
    return;
  }
  const OpDef* op = FindOp(node);
  if (op == nullptr || op->random || op->bodies > 0 || !evaluator.has(node)) return;
  bool wanted = false;
  for (const TensorType& type : outputs) wanted |= IsSmall(type);
  if (!wanted) return;
  std::vector<Tensor> inputs(in.types.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    if (in.constants[i] == nullptr || !IsSmall(in.types[i])) return;
    inputs[i] = *in.constants[i];
  }
  auto values = EvaluateAhead(evaluator, node, inputs, outputs);
  if (!values) return;
  for (size_t i = 0; i < values->size(); ++i) {
    if (node.outputs[i].valid()) known[node.outputs[i]] = std::move((*values)[i]);
  }
}

// Infers every value; `known` gets what is computed on the way.
Status InferValues(Graph& graph, std::map<ValueId, Tensor>& known, const Evaluator& evaluator) {
  SymbolicSizes sizes(graph);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<TensorType> declared;
    for (ValueId out : node.outputs)
      declared.push_back(out.valid() ? graph.value(out).type : TensorType());
    const NodeInputs in(graph, node, &known);
    EVOQ_ASSIGN(std::vector<TensorType> types, InferFrom(node, in, declared, evaluator));
    sizes.Refine(node, types);
    for (size_t i = 0; i < types.size(); ++i) {
      if (node.outputs[i].valid()) graph.SetType(node.outputs[i], types[i]);
    }
    sizes.Learn(node);
    LearnValues(node, in, types, known, evaluator);
  }
  return {};
}

}  // namespace

Result<std::vector<TensorType>> InferOutputs(const OpDef& op, const Node& node,
                                             std::span<const TensorType> inputs,
                                             std::span<const Tensor* const> constants,
                                             std::span<const TensorType> declared,
                                             const Evaluator& evaluator) {
  std::vector<TensorType> real(inputs.size());
  std::vector<const Tensor*> data(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor() && !op.containers)
      return InvalidInput("input {} is {}, expected a tensor", i, inputs[i].ToString());
    const bool moved = InputIsChannelsLast(op, node, i);
    EVOQ_TRY(CheckSize(inputs[i], "input", i));
    real[i] = (moved ? ToChannelsFirst(inputs[i]) : inputs[i]).Dequantized();
    const Tensor* constant = i < constants.size() ? constants[i] : nullptr;
    if (constant != nullptr && !moved && !inputs[i].quantized() && constant->layout().empty())
      data[i] = constant;
  }
  EVOQ_ASSIGN(std::vector<TensorType> types,
              op.infer({.node = node, .inputs = real, .constants = data, .evaluator = evaluator}));
  if (types.size() < declared.size())
    return InvalidInput("{} outputs are used, expected at most {}", declared.size(), types.size());
  types.resize(declared.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (i == 0 && IsChannelsLast(op, node)) types[i] = ToChannelsLast(types[i]);
    EVOQ_ASSIGN(types[i], Merge(std::move(types[i]), declared[i], i));
    EVOQ_TRY(CheckSize(types[i], "output", i));
  }
  return types;
}

Result<std::vector<TensorType>> InferNode(const Graph& graph, const Node& node,
                                          std::span<const TensorType> declared,
                                          const Evaluator& evaluator) {
  return InferFrom(node, NodeInputs(graph, node), declared, evaluator);
}

Status InferTypes(Graph& graph, const Evaluator& evaluator) {
  return InferTypes(graph, {}, evaluator);
}

Status InferTypes(Graph& graph, std::map<ValueId, Tensor> known, const Evaluator& evaluator) {
  return InferValues(graph, known, evaluator);
}

Result<std::vector<Tensor>> EvaluateAhead(const Evaluator& evaluator, const Node& node,
                                          std::span<const Tensor> inputs,
                                          std::span<const TensorType> output_types) {
  int64_t drawn = 0;
  const auto within = [&] {
    const BudgetScope scope(BudgetScope::Part(4));
    auto outputs = evaluator.evaluate(node, inputs, output_types);
    drawn = scope.budget().memory_limit() - scope.budget().memory_left();
    return outputs;
  };
  auto outputs = within();
  BudgetScope::GiveMemory(drawn);
  return outputs;
}

Status FoldKnown(Graph& graph, const Evaluator& evaluator) {
  std::map<ValueId, Tensor> known;
  EVOQ_TRY(InferValues(graph, known, evaluator));
  for (auto& [id, tensor] : known) {
    const NodeId producer = graph.value(id).producer;
    if (!producer.valid() || graph.node(producer).outputs.size() != 1) continue;
    graph.RemoveNode(producer);
    graph.SetConstant(id, std::move(tensor));
  }
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  return {};
}

}  // namespace evoq
