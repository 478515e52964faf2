// From a graph of integers to the graph that simulates them while they are trained.
#pragma once

#include <map>
#include <string>

#include "quant/quant.h"

namespace evoq {

struct Simulation {
  Graph graph;                               // float32, of operators that have gradients
  std::map<std::string, std::string> steps;  // value or weight -> the parameter of its scale
};

// `integers`: what QuantizeStatic makes of the float32 graph `real`, with the sizes of a shard;
// layers have the same names in both, and the weights of `given` their scales. Errors: kUnsupported
// naming an operator on integers that has no simulation.
Result<Simulation> Simulate(const Graph& integers, const Graph& real, const GivenTypes& given);

// Whether integer arithmetic of this float32 node is simulated; else it stays float32.
bool IsSimulated(const Graph& graph, const Node& node);

}  // namespace evoq
