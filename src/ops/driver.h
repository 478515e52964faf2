// Shared by the drivers (infer.cc, cost.cc, reference/evaluate.cc) and by who runs graphs; not for
// operators.
#pragma once

#include <concepts>
#include <map>

#include "ops/op.h"

namespace evoq {

// WithContext where the context takes time to say: `context()` is called for an error only.
template <typename T, std::invocable Context>
Result<T> WithContext(Result<T> result, const Context& context) {
  if (!result) return tl::unexpected<Error>(std::move(result.error()).WithContext(context()));
  return result;
}

// Whether the node has as many inputs, outputs and subgraphs as its operator `op` takes;
// `present(i)` says whether input i is there. Errors: kInvalidInput, without the node's label.
Status CheckArity(const OpDef& op, const Node& node, const std::function<bool(size_t)>& present);

// Output types, as many as `declared` has, from input types as stored (quantized, channels-last).
// `constants` may hold data of any layout or quantization; what operators cannot use is hidden from
// them. Errors are without the node's label.
Result<std::vector<TensorType>> InferOutputs(const OpDef& op, const Node& node,
                                             std::span<const TensorType> inputs,
                                             std::span<const Tensor* const> constants,
                                             std::span<const TensorType> declared,
                                             const Evaluator& evaluator);

// Evaluates a node before anyone runs the model: its memory and work are at most a quarter of what
// is left of the thread's budget (base/budget_scope.h), and the memory is not counted any more once
// it is done. Errors: those of the evaluator; kTooLarge.
Result<std::vector<Tensor>> EvaluateAhead(const Evaluator& evaluator, const Node& node,
                                          std::span<const Tensor> inputs,
                                          std::span<const TensorType> output_types);

// About what a file of this graph holds, its subgraphs too: what budgets of work on it grow with.
int64_t GraphBytes(const Graph& graph);

// Bytes that a value keeps: elements, the characters of strings, the items of containers.
int64_t FootprintBytes(const Tensor& tensor);

// InferTypes, where the data of some values is known.
Status InferTypes(Graph& graph, std::map<ValueId, Tensor> known, const Evaluator& evaluator);

// Fixes sizes that the graph's inputs leave free, by input name, for good, and infers again. -1
// leaves a dimension as it is. A symbol becomes fixed wherever it stands. Errors: as BindShapes.
Status FixShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes,
                 const Evaluator& evaluator);

// InferTypes; what inference computes on the way (sizes and small integers) becomes constants, and
// nodes that nobody reads any more go. For a graph whose inputs have their types.
Status FoldKnown(Graph& graph, const Evaluator& evaluator);

// Errors: kUsage naming the first input that is missing or does not fit the graph's type of it.
Status CheckInputs(const Graph& graph, std::span<const Tensor> inputs);

// Whether the attribute channels_last=1 applies to input i / to the operator.
bool IsChannelsLast(const OpDef& op, const Node& node);
bool InputIsChannelsLast(const OpDef& op, const Node& node, size_t i);

// N,spatial...,C -> N,C,spatial... and back; quantization axes follow. Types of unknown rank or
// rank < 3 pass unchanged.
TensorType ToChannelsFirst(const TensorType& type);
TensorType ToChannelsLast(const TensorType& type);
// The same for ranks of 3 and more: permutation[d] is the axis of the source that becomes axis d.
std::vector<int> ChannelsFirstOrder(int rank);
std::vector<int> ChannelsLastOrder(int rank);

// No value of a model may be larger than this: a guard against absurd sizes, not a promise of
// memory.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 38;

}  // namespace evoq
