// Rounding the weights of a block at once, by gradient descent on the error of its results. Who
// hands it in (quant/method.h) knows gradients.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// A weight between the real values below and above each of its numbers, in the order of its
// elements.
struct SoftWeight {
  std::string name;  // of the constant in BlockRounding::graph
  std::vector<float> low, high;
  std::vector<float> start;  // in [0, 1]: where between them it begins
};

struct BlockRounding {
  const Graph& graph;  // float32, of static sizes; one output, [1, N]
  std::vector<SoftWeight> weights;
  std::span<const std::vector<Tensor>> inputs;  // of each sample
  std::span<const Tensor> targets;              // of each sample, [1, N]
  // The mean of |output - target|^2 / |target|^2 with the weights as they were rounded before.
  double error_before = 1;
  int threads = 1;
};

// Of each weight, which of its numbers become the higher one: the same for any number of threads.
// Errors: kUnsupported for operators without a gradient.
using LearnRoundingFn =
    std::function<Result<std::vector<std::vector<bool>>>(const BlockRounding& block)>;

// Outputs of a graph as one: [1, N], each times a factor of its own, one behind the other.
struct JoinedOutputs {
  std::vector<size_t> outputs;
  std::vector<float> factors;

  // Of what the graph gave for a sample.
  Tensor Of(std::span<const Tensor> results) const;
  // A graph that computes this alone, of plain operators: fused residuals and activations are nodes
  // of their own. Inputs that are known become constants, others have these sizes by name.
  Result<Graph> GraphOf(const Graph& graph, const std::map<std::string, Tensor>& known,
                        const std::map<std::string, std::vector<int64_t>>& sizes) const;
};

}  // namespace evoq
