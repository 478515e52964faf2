// The reference evaluator: what nodes and graphs mean, by the definitions of all operators.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/evaluator.h"
#include "ops/driver.h"
#include "ops/op.h"

namespace evoq {

// Evaluates one node as defined: handles quantized types and channels_last as described at
// Definition.
Result<std::vector<Tensor>> EvaluateNode(const Node& node, std::span<const Tensor> inputs,
                                         std::span<const TensorType> output_types);
bool HasDefinition(const Node& node);

struct Definition;
// Of all operators, sorted by domain and name, as AllOps().
std::span<const Definition* const> AllDefinitions();
// nullptr when evoq lacks the node's operator.
const Definition* FindDefinition(const Node& node);

// All definitions.
inline constexpr Evaluator kReference = {.has = HasDefinition, .evaluate = EvaluateNode};

// Evaluates a whole graph by its definition: the quantization simulator. Inputs by position; types
// must match. `watch` (may be null) sees every computed value. Slow, exact, single-threaded.
Result<std::vector<Tensor>> EvaluateGraph(
    const Graph& graph, std::span<const Tensor> inputs,
    const std::function<void(ValueId, const Tensor&)>& watch = nullptr);

// The drivers of ops with all definitions.
inline Result<std::vector<TensorType>> InferNode(const Graph& graph, const Node& node,
                                                 std::span<const TensorType> declared) {
  return InferNode(graph, node, declared, kReference);
}
inline Status InferTypes(Graph& graph) { return InferTypes(graph, kReference); }
inline Status BindShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes) {
  return BindShapes(graph, shapes, kReference);
}
inline Status FixShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes) {
  return FixShapes(graph, shapes, kReference);
}
inline Status FoldKnown(Graph& graph) { return FoldKnown(graph, kReference); }

}  // namespace evoq
