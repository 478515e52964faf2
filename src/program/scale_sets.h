// Scale sets: several quantizations of one model that share its weights (docs/adaptive.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// What one value becomes under a set.
struct ScaleChange {
  std::string value;                         // its name
  std::shared_ptr<const QuantParams> quant;  // null where the type has none
  Tensor constant;                           // of a constant: the whole of it; else undefined
};

// The quantization parameters of a model for one kind of input.
struct ScaleSet {
  std::string name;                  // unique, never empty, without "/"
  int64_t samples = 0;               // that it was calibrated on
  std::vector<ScaleChange> changes;  // against the graph; of the first set none
};

inline constexpr size_t kMaxScaleSets = 16;

// Checks sets against their graph: one name each, the first without changes; a change is of a value
// that the graph computes in integers, or of a plain or packed constant, keeps its element type,
// shape, layout and how many scales there are, and leaves the interface of the model as it is.
// Errors: kInvalidInput naming the set and the value.
Status CheckScaleSets(const Graph& graph, const std::vector<ScaleSet>& sets);

// The graph under a set: nodes, names and shared constants as they are.
Graph WithScaleSet(const Graph& graph, const ScaleSet& set);

// The set that makes `other` of `graph`, two graphs that differ in quantization parameters and in
// the contents of constants. Errors: kUnsupported where they differ in anything else, naming the
// node or value.
Result<ScaleSet> ScaleSetBetween(const Graph& graph, const Graph& other, const std::string& name,
                                 int64_t samples);

}  // namespace evoq
