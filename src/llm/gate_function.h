// Nonlinear activations of feed-forward parts.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace evoq {

enum class GateFunction { kSilu, kGelu, kGeluTanh, kRelu, kReluSquared };

// By the name that config.json has for it ("gelu_new"). Errors: kUnsupported with the names that
// there are.
Result<GateFunction> FindGateFunction(std::string_view name);

// The nodes of f(x); those in front of the last one are called `name` and more.
ValueId AddFunction(Graph& graph, GateFunction function, const std::string& name, ValueId x);

}  // namespace evoq
