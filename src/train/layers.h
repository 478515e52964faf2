// Adds layers that are to be trained to a graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/xorshift.h"
#include "graph/graph.h"

namespace evoq {

// Weights are drawn as He et al., "Delving Deep into Rectifiers" (2015), have it: of variance
// 2 / (inputs per output), biases 0.
class Layers {
 public:
  // `seed` decides all weights.
  Layers(const char* name, uint64_t seed);

  // The graph's input, [N, channels, size, size] with N free.
  ValueId Image(int64_t channels, int64_t size);
  struct Kernel {
    int64_t size = 3, stride = 1, pad = 0;
    bool bias = false;
  };
  ValueId Conv(ValueId x, int64_t in, int64_t out, const Kernel& kernel);
  ValueId BatchNorm(ValueId x, int64_t channels);
  ValueId Relu(ValueId x) { return graph_.Apply("Relu", Name("relu"), {x}); }
  ValueId Add(ValueId a, ValueId b) { return graph_.Apply("Add", Name("add"), {a, b}); }
  ValueId MaxPool(ValueId x, int64_t size);
  ValueId GlobalPool(ValueId x) { return graph_.Apply("GlobalAveragePool", Name("pool"), {x}); }
  ValueId Flatten(ValueId x);
  ValueId Linear(ValueId x, int64_t in, int64_t out);

  // The graph, whose output is this value under the name "logits".
  Graph Finish(ValueId logits);

 private:
  std::string Name(const std::string& kind) { return kind + "_" + std::to_string(++count_[kind]); }
  ValueId Normal(const std::string& name, std::vector<int64_t> sizes, int64_t inputs);
  ValueId Filled(const std::string& name, int64_t size, float value);

  Graph graph_;
  XorShift random_;
  std::map<std::string, int> count_;
};

}  // namespace evoq
