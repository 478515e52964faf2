// A graph whose inner values can be read and given.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// Floats and quantized values, computed by nodes, in execution order: what two models can be
// compared by. Types are known.
std::vector<ValueId> RealValues(const Graph& graph);

struct TappedGraph {
  Graph graph;
  std::vector<size_t> outputs;  // of each value asked for: its position among the graph's outputs
  std::vector<int> givens;      // of a cut: of each value, the position of its input; -1: none
};

// The graph with `values` among its outputs.
TappedGraph Tap(const Graph& graph, std::span<const ValueId> values);

// The graph with `values` among its outputs, and a new input for each that nodes read, of its type,
// which they read instead: every stretch between the values computes on what it is given. All
// can then be computed at once, each as if alone. The inputs of the graph come first, all of them;
// the new ones follow in the order of `values`.// Errors: those of sorting.
Result<TappedGraph> CutAt(const Graph& graph, std::span<const ValueId> values);

// What computes one of several values from the others.
struct StretchBefore {
  std::vector<size_t> reads;  // by index: those before it, with none of them between
  int nodes = 0;              // on the way, constants' and sizes' too
};
std::vector<StretchBefore> Stretches(const Graph& graph, std::span<const ValueId> values);

}  // namespace evoq
