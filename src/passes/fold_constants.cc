#include <algorithm>

#include "base/budget_scope.h"
#include "ops/driver.h"
#include "passes/match.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// A folded constant may be this large, or as large as what it is computed from, and cost this much:
// a file of a few bytes may ask for products of huge constants. All of them together take no more
// than half of the budget's memory; what is beyond stays a node.
constexpr int64_t kMaxFoldedBytes = int64_t{16} << 20;
constexpr int64_t kMaxFoldedMacs = int64_t{1} << 26;
constexpr int64_t kMaxOpenBytes = 64 << 10;  // of inputs, where the data tells the outputs' sizes

// 16-bit weights of products that are of this size or larger stay what they are: widen-constants
// and quantization, which need them in float32, need them one at a time. Other constants are
// folded: passes look into them.
constexpr int64_t kLeastKeptBytes = 64 << 10;

// Whether the value is a matrix, and nothing but products reads it, as their weight.
bool IsWeight(const Graph& graph, ValueId value) {
  const auto is_weight_of = [&](NodeId id) {
    const Node& node = graph.node(id);
    return LinearFormOf(node) != nullptr && node.input(1) == value && node.input(0) != value;
  };
  return !graph.IsOutput(value) && graph.value(value).type.shape.rank() == 2 &&
         std::ranges::all_of(graph.value(value).users, is_weight_of);
}

bool IsWeightOrItsTranspose(const Graph& graph, ValueId value) {
  const std::vector<NodeId>& users = graph.value(value).users;
  if (users.size() != 1 || !IsOp(graph, users[0], "Transpose")) return IsWeight(graph, value);
  return !graph.IsOutput(value) && IsWeight(graph, graph.node(users[0]).outputs[0]);
}

bool WidensWeights(const Graph& graph, const Node& node) {
  if (OpOf(node).conversion != PrecisionChange::kCast) return false;
  const Value& from = graph.value(node.input(0));
  return from.is_constant() && IsFloat(from.type.dtype) && DTypeBits(from.type.dtype) == 16 &&
         static_cast<int64_t>(from.constant.bytes()) >= kLeastKeptBytes &&
         IsWeightOrItsTranspose(graph, node.outputs[0]);
}

// Whether the data alone tells the output's sizes, as of NonZero.
bool IsOpen(const TensorType& type) {
  return type.is_tensor() && type.dtype != DType::kUndefined && type.shape.ranked() &&
         !type.shape.elements();
}

// Dequantization of constants is import-qdq's business: folding it would lose the integers.
bool MayFold(const Graph& graph, const Node& node) {
  if (WidensWeights(graph, node)) return false;
  const OpDef& op = OpOf(node);
  if (op.random || op.bodies > 0 || node.op == "DequantizeLinear") return false;
  if (NodeCost(graph, node).macs > kMaxFoldedMacs) return false;
  int64_t limit = kMaxFoldedBytes, read = 0;
  bool few_bits = false;  // which would be lost
  for (ValueId in : node.inputs) {
    if (!in.valid()) continue;
    const Value& value = graph.value(in);
    if (!value.is_constant() || !value.constant.layout().empty()) return false;
    limit = std::max(limit, static_cast<int64_t>(value.constant.bytes()));
    read += static_cast<int64_t>(value.constant.bytes());
    few_bits |= value.type.quantized() &&
                (DTypeBits(value.type.dtype) < 8 || IsTinyFloat(value.type.dtype));
  }
  for (ValueId out : node.outputs) {
    if (!out.valid()) continue;
    auto bytes = graph.value(out).type.bytes();
    if (IsOpen(graph.value(out).type) && read <= kMaxOpenBytes) bytes = 0;
    if (!bytes || *bytes > limit || graph.IsOutput(out)) return false;
    if (few_bits && !graph.value(out).type.quantized()) return false;
  }
  return true;
}

// How many nodes were folded: none where the budget does not allow it.
Result<int> Fold(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  std::vector<Tensor> inputs;
  std::vector<TensorType> types;
  for (ValueId in : node.inputs) inputs.push_back(in.valid() ? graph.value(in).constant : Tensor());
  for (ValueId out : node.outputs)
    types.push_back(out.valid() ? graph.value(out).type : TensorType());
  auto results = EvaluateAhead(kReference, node, inputs, types);
  if (!results && results.error().code() == ErrorCode::kTooLarge) return 0;
  if (!results) return tl::unexpected(results.error());
  int64_t bytes = 0;
  for (const Tensor& t : *results) bytes += FootprintBytes(t);
  const bool open = std::ranges::any_of(types, IsOpen);
  if (!BudgetScope::HasHalfBeyond(bytes) || (open && bytes > kMaxFoldedBytes)) return 0;
  EVOQ_TRY(SpendMemory(bytes, "folded constants"));
  graph.RemoveNode(id);
  for (size_t i = 0; i < node.outputs.size() && i < results->size(); ++i) {
    const ValueId out = node.outputs[i];
    if (out.valid() && (*results)[i].defined()) graph.SetConstant(out, (*results)[i]);
  }
  return 1;
}

// The types of what is computed from constants alone, where one of them had no size before.
Status InferAgain(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto constant = [&](ValueId in) { return !in.valid() || graph.value(in).is_constant(); };
  const OpDef& op = OpOf(node);
  if (!std::ranges::all_of(node.inputs, constant) || op.random || op.bodies > 0) return {};
  const std::vector<TensorType> declared(node.outputs.size());
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferNode(graph, node, declared));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) graph.SetType(node.outputs[i], types[i]);
  }
  return {};
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  bool new_sizes = false;
  for (NodeId id : NodesOf(graph)) {
    if (new_sizes) EVOQ_TRY(InferAgain(graph, id));
    if (!MayFold(graph, graph.node(id))) continue;
    const ValueId out = graph.node(id).outputs[0];
    const bool open = out.valid() && IsOpen(graph.value(out).type);
    EVOQ_ASSIGN(const int folded, Fold(graph, id));
    changes += folded;
    new_sizes |= folded > 0 && open;
  }
  return changes;
}

}  // namespace

extern const PassDef kFoldConstants = {
    .name = "fold-constants",
    .doc = "Computes nodes whose inputs are all constants; Shape of a static shape is one.",
    .stage = Stage::kOptimize,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
