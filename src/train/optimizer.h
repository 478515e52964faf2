// How a gradient changes parameters: one row (OptimizerDef), named by one line in
// train/optimizers.inc.
#pragma once

#include <cstdint>
#include <span>

namespace evoq {

// One parameter, its gradient g, and what the optimizer keeps of each of its numbers.
struct OptimizerStep {
  float* w;
  const float* g;
  float* slots[2];  // zeros before the first step; as many as the row says
  int64_t n;
  float rate;      // the learning rate now
  float momentum;  // of SGD; the first moment's of Adam (beta 1)
  float beta2;     // the second moment's of Adam
  float epsilon;   // beside the root of the second moment
  float decay;     // of weights; 0 for parameters that have none
  int64_t step;    // from 1 on
};

struct OptimizerDef {
  const char* name;
  const char* doc;  // one sentence
  int slots;
  bool second_moment;  // whether it has one: `beta2` and `epsilon` count
  void (*update)(const OptimizerStep& step);
};

std::span<const OptimizerDef* const> AllOptimizers();

}  // namespace evoq
