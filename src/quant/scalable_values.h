// Values whose channels can be divided where they are made and multiplied in the weights that read
// them, so that the graph computes the same.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace evoq {

struct ScalableValue {
  // What is divided: the scale and bias of a normalization over the last axis, or the weights and
  // bias of a layer whose results are the value, or one factor of it.
  enum class Maker { kNormalization, kLayer, kFactor };

  ValueId value;
  NodeId maker;
  Maker kind = Maker::kLayer;
  int axis = -1;                // of the channels
  std::vector<NodeId> readers;  // linear operators with constant weights; nothing else reads it
};

// Behind normalizations with constant scales, and behind layers whose activation f has f(t x) =
// t f(x) for t > 0; with `factors` also products by elements, as of gated layers, one operand of
// which such a layer makes for nothing else.
std::vector<ScalableValue> ScalableValues(const Graph& graph, bool factors = false);

// Channel c is divided by s[c] > 0, in new constants.
void DivideChannels(Graph& graph, const ScalableValue& at, std::span<const double> s);

}  // namespace evoq
