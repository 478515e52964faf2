// What its user chose for a model, as facts of its graph (Graph::metadata): they travel with it
// into .onnx and .etm files and hold wherever it is optimized, compiled and run. Names begin with
// kChoices; a fact that is not there chooses nothing.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace evoq {

inline constexpr std::string_view kChoices = "evoq.choice.";
// Which passes run (passes/choice.h).
inline constexpr char kPassChoice[] = "evoq.choice.passes";

// What the fact says, "" where there is none.
std::string_view ChoiceOf(const Graph& graph, const char* key);

// `part`, a part of the graph or a subgraph in it, takes over what was chosen for the graph.
void InheritChoices(const Graph& graph, Graph& part);

}  // namespace evoq
