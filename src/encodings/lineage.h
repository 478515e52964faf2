// Which tensor of a model's file a value of its optimized graph is: passes fold, transpose and
// fuse, and other tools know the names of the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

class Lineage {
 public:
  // A value of the optimized graph, or what quantization takes off one again (NAME.linear,
  // NAME.product: quant/unfuse.h), and a tensor of the file.
  struct Link {
    std::string value, tensor;
    std::vector<int64_t> perm;  // the value is the tensor with its axes permuted; empty: as it is
    // A constant whose numbers are others, as where a norm was folded in.
    bool changed = false;
    // The tensor's numbers in another shape, as in front of a Reshape that is gone.
    bool moved = false;
  };

  // The graph as it was imported, and after the passes of Stage::kOptimize.
  Lineage(const Graph& original, const Graph& optimized);

  std::vector<const Link*> OfTensor(const std::string& tensor) const;
  const Link* OfValue(const std::string& value) const;  // nullptr: it is of no tensor of the file

 private:
  void LinkNames(const Graph& original, const Graph& optimized);
  void LinkConstants(const Graph& original, const Graph& optimized, NodeId id);
  void LinkInner(const Graph& original, const Graph& optimized, NodeId id);
  void LinkMoved(const Graph& original);
  void Add(Link link);

  std::map<std::string, Link> by_value_;        // none that is moved
  std::multimap<std::string, Link> by_tensor_;  // all
};

}  // namespace evoq
