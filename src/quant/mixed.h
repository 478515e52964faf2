// Mixed precision: a scheme for each layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/quant.h"

namespace evoq {

// What becomes of one layer, and why, which is shown for a layer that stays float32.
struct LayerChoice {
  std::string scheme;  // name of a scheme
  Reason why;
};
// By node name. Layers without an entry stay float32.
using MixedPlan = std::map<std::string, LayerChoice>;

// A layer, which a plan chooses for: linear operators, recurrent ones, and those that look up rows
// of a table of float numbers, unless it is too small to be narrowed.
bool IsLayer(const Graph& graph, const Node& node);

// Those nodes, in execution order. The ones between them follow their inputs as in each scheme.
std::vector<NodeId> Layers(const Graph& graph);

// Runs each scheme on the layers that the plan gives it, in the order of schemes.inc. `ranges` are
// needed when a layer is quantized by a scheme with calibration. Errors: kUsage for a scheme that
// is no scheme.
Result<QuantizeReport> QuantizeMixed(Graph& graph, const Ranges& ranges,
                                     const QuantizeOptions& options, const MixedPlan& plan);

}  // namespace evoq
