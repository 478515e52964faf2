#include "ops/control.h"
#include "ops/held.h"
#include "passes/match.h"

namespace evoq {
namespace {

// Optimizes a subgraph for any inputs that the node may hand it; 0 where nothing changed or where
// the subgraph's types cannot be inferred yet, as in a branch that is never taken.
int Optimize(const Graph& graph, NodeId id, size_t i, Graph& body) {
  const Node& node = graph.node(id);
  std::vector<TensorType> inputs;
  for (ValueId in : node.inputs) inputs.push_back(in.valid() ? graph.value(in).type : TensorType());
  const auto types = BodyInputTypes(node, i, inputs);
  if (!types) return 0;
  for (size_t k = 0; k < types->size(); ++k)
    body.SetType(body.inputs()[k], (*types)[k].Dequantized());
  InheritChoices(graph, body);
  int changes = 0;
  PassOptions options;
  options.log = [&](const PassDef&, int count, const Graph&) { changes += count; };
  if (!RunPasses(body, Stage::kOptimize, options)) return 0;
  // Later shapes may be others: what is kept are element types and containers.
  for (ValueId in : body.inputs()) {
    const TensorType& type = body.value(in).type;
    body.SetType(in, TensorType::In(type.kind, type.dtype, Shape::UnknownRank()));
  }
  return changes;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (IsHeld(graph.node(id))) continue;
    for (size_t i = 0; graph.alive(id) && i < graph.node(id).bodies.size(); ++i) {
      Graph body = *graph.node(id).bodies[i];
      // Naming the sizes of inputs, which are forgotten again, is no change that lasts: a body is
      // taken where its nodes changed.
      const std::string before = Print(body);
      if (Optimize(graph, id, i, body) == 0) continue;
      body = body.Compacted();
      if (Print(body) == before) continue;
      graph.SetBody(id, i, std::make_shared<const Graph>(std::move(body)));
      ++changes;
    }
  }
  return changes;
}

}  // namespace

extern const PassDef kOptimizeBodies = {
    .name = "optimize-bodies",
    .doc = "Runs the optimize passes on the subgraphs of If, Loop, Scan and SequenceMap.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
