// Which nodes of a float graph become integer arithmetic, and why the others do not.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "ops/op.h"
#include "quant/quant.h"

namespace evoq {

// The inputs of a node that hold real values to be quantized: float32 and not constant, or float32
// constants of operators that take them as operands (OpDef::quantizes_constants) or move values. Of
// linear operators: x, the residual and a computed second operand.
std::vector<size_t> RealInputs(const Graph& graph, const Node& node);

// The operator moves or selects values (QuantTrait::kMove): inputs and outputs share their
// parameters.
bool MovesOnly(const Node& node);

// The node looks up rows of a constant: an embedding. Its input 0 is the table.
bool IsConstantTable(const Graph& graph, const Node& node);

// Weights of fewer elements save nothing by narrow ones.
inline constexpr int64_t kLeastNarrowed = 256;

// Where a node reads a weight: linear operators their second input, those that look up rows their
// table.
struct WeightPlace {
  size_t input;
  int axis;  // whose indices have a scale each
};
std::optional<WeightPlace> WeightPlaceOf(const Graph& graph, const Node& node);

struct QuantPlan {
  std::set<NodeId> integer;          // nodes that compute with integers
  std::map<NodeId, Reason> reasons;  // why another node stays float
  int already = 0;                   // linear and recurrent ones that compute with integers as is
};

// 1. Linear operators with constant weights (MatMul: also two computed operands) and known ranges
// become integer.
// 2. In execution order, operators that move or compute on values follow when all their real inputs
// come from integer nodes
//    (operators that only move: when one does).
// 3. Backwards, those whose results no integer node reads stay float after all: requantizing would
// only lose accuracy.
QuantPlan MakePlan(const Graph& graph, const Ranges& ranges, const QuantizeOptions& options);

}  // namespace evoq
