// Parts of the exporter.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// A fact of the graph (Graph::metadata) for each output whose rank no inference knows: this and the
// output's name -> the rank that the imported file declares.
inline constexpr const char* kOutputRank = "onnx.output_rank.";

// The oldest operator set, from kOldestExport on, in which the graph's operators and types exist,
// and what needs it.
struct NeededOpset {
  int opset;
  std::string why;  // "int4 values", "node NAME (Gelu)"
};
NeededOpset OpsetNeeded(const Graph& graph);
// The file format version that goes with an operator set.
int IrVersionOf(int opset);

// How many inputs of a node with subgraphs are its own ones; captured values follow.
size_t OwnInputsOf(const Node& node);

// A copy of subgraph `i` of `node` that can be written into its attribute: its types are inferred
// as far as they can be, its outputs are outputs of its nodes, its names differ from all `names`
// (and join them), but for the captured inputs, which have the names that the outer graph reads
// them by.
Result<Graph> BodyForExport(const Graph& graph, const Node& node, size_t i,
                            const std::vector<std::string>& captured, std::set<std::string>& names);

}  // namespace evoq
