// Whether kernels take a step as it would be in integers: what the plan asks before it decides.
#pragma once

#include <map>
#include <optional>

#include "base/reason.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

namespace evoq {

// Asks about the linear and the spatial nodes of a float graph, at its sizes, or at example sizes
// where it leaves them open; types of other nodes depend on what passes make of them. The graph
// outlives it. A graph that refuses the example sizes is not asked about.
class IntegerKernels {
 public:
  IntegerKernels(const Graph& graph, bool per_channel) : graph_(graph), per_channel_(per_channel) {}

  // Why the node is better left in float32, which has a kernel for it: no integer kernel takes it,
  // or the one that does is slower (kernels/slower.h). Nothing where an integer kernel pays, and
  // where the node would move its values without a kernel either way.
  std::optional<Reason> Refusal(const Node& node) const;
  // The same of a product whose activations are quantized at each run. Nothing where it has no such
  // form.
  std::optional<Reason> DynamicRefusal(const Node& node) const;

 private:
  // The graph with static types, made when it is first asked for; ids are those of the graph. Null
  // where the graph refuses the sizes.
  const Graph* Example() const;

  const Graph& graph_;
  bool per_channel_;
  mutable bool tried_ = false;
  mutable std::optional<Graph> example_;
};

}  // namespace evoq
