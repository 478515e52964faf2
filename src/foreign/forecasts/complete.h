// Giving an operator the Q/DQ pairs that it lacks, with quantization parameters that the graph
// itself determines.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace evoq {

struct Missing {
  std::vector<size_t> inputs;  // activations that are not dequantized
  bool output = false;         // the result is not only quantized
  bool any() const { return !inputs.empty() || output; }
};
Missing MissingPairs(const Graph& graph, const Node& node);

// A neighbour's integers are near: an activation that it reads, or its result, is quantized
// somewhere, or the other inputs are dequantized.
bool TouchesIntegers(const Graph& graph, const Node& node);

// Whether a reader of the value, perhaps behind operators that only move values, has integer
// weights or a quantized result: integers that nobody uses afterwards only cost accuracy.
bool LeadsToIntegers(const Graph& graph, ValueId value);

// The types that the missing pairs would get; empty ones where the graph does not determine them:
//   * a value that is quantized elsewhere has that type;
//   * operators that move values have the same parameters on both sides;
//   * an average lies within its input's range;
//   * an operand of a sum y = a + b lies in [low(y) - high(b), high(y) - low(b)], or saturates y;
//     with a Relu behind the sum low(y) is 0, and an operand below -high(b) makes the Relu's result
//     0 whatever it is.
struct Completion {
  std::vector<TensorType> inputs;  // for each of Missing::inputs
  TensorType output;
  bool complete = false;
};
Completion PlanCompletion(const Graph& graph, const Node& node, const Missing& missing,
                          bool output_needed);

// Places the pairs. False when they are there already or their types are unknown.
bool CompletePairs(Graph& graph, NodeId id, bool output_needed);

}  // namespace evoq
