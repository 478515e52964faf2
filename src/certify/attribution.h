// Which layer of a float graph everything else belongs to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/model.h"
#include "quant/mixed.h"
#include "quant/search.h"

namespace evoq {

// Layers are numbered as in Layers(graph). A node between layers belongs to the layer whose result
// it works on: in a quantized graph it follows that one's precision. Nodes before all layers belong
// to layer 0.
class Attribution {
 public:
  // `graph`: optimized, with static shapes and at least one layer.
  explicit Attribution(const Graph& graph);

  int layers() const { return static_cast<int>(names_.size()); }
  const std::string& name(int layer) const { return names_[static_cast<size_t>(layer)]; }
  // Whether the layer looks up rows and computes nothing.
  bool is_table(int layer) const { return is_table_[static_cast<size_t>(layer)]; }

  // The layer of each step of a program made from the graph. A step that carries the name of one of
  // its nodes belongs with that; conversions to a narrower type to who reads them; others to who
  // gives them their input.
  std::vector<int> OfSteps(const Program& program) const;

  // The values that one layer gives to others.
  const std::vector<CostModel::Link>& links() const { return links_; }

 private:
  std::map<std::string, int> by_name_;  // of all nodes
  std::vector<std::string> names_;      // of the layers
  std::vector<bool> is_table_;          // of them
  std::vector<CostModel::Link> links_;
};

}  // namespace evoq
