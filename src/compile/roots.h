// Whose memory a value uses.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace evoq {

// An attribute of a view that has to give its output memory of its own.
inline constexpr char kCopies[] = "evoq.copy";

// The value whose memory a value uses: itself, or what it is a view of.
class Roots {
 public:
  explicit Roots(const Graph& graph);
  ValueId operator[](ValueId id) const { return root_[id.index]; }

  // Whether the node computes nothing: its output is its input's bytes under another shape.
  static bool IsView(const Graph& graph, const Node& node);
  // A view with the attribute kCopies.
  static bool IsCopy(const Graph& graph, const Node& node);

 private:
  std::vector<ValueId> root_;
};

// An Identity that copies `value`, as a node of this name. The copy.
ValueId AddCopy(Graph& graph, ValueId value, const std::string& name);

// A model output needs memory of its own: where it is a view of an input, a constant or another
// output, a copying Identity is put before it.
Status SeparateOutputs(Graph& graph);

}  // namespace evoq
