// A model that is trained as the integers that it will be (quantization-aware training): its
// float32 constants, the scales of its integers, and a graph for TrainGraph that simulates them
// (train/simulation.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quant/layer_bits.h"
#include "train/plan.h"

namespace evoq {

class QuantizedModel {
 public:
  // `graph`: float32, optimized (batch normalization is folded into convolutions with the
  // statistics that it has: static folding, Nagel et al., "A White Paper on Neural Network
  // Quantization", 2021, section 4.2). Scales begin as the scheme int8 chooses them from `ranges`,
  // or
  // QuantizeWeightToBits where `bits` says so; zero points stay as they begin. Integer
  // operators that have no simulation stay float32 too. Errors: kUnsupported for a graph that
  // holds quantized types or batch normalization, or of which nothing becomes integer arithmetic.
  static Result<std::unique_ptr<QuantizedModel>> Create(Graph graph, Ranges ranges,
                                                        QuantizeOptions options,
                                                        std::vector<LayerBits> bits);

  // What is trained of it; simulation() is the plan's graph then.
  Result<TrainingPlan> Plan(const TrainingPlanOptions& options);
  // Its constants are the parameters: those of the model by their names, "NAME.step" the logarithms
  // of the scales of an activation or a weight.
  Graph& simulation() { return simulation_; }

  // The float32 model whose weights are trained.
  const Graph& real() const { return graph_; }

  // Takes the simulation's constants over: weights and scales. What Plan makes next begins there.
  void Absorb();
  // The model with integer types: what post-training quantization makes of the weights with these
  // scales. Errors: kConditionFailed where a layer computes with integers no more.
  Result<Graph> Integers() const { return Quantize(graph_, given_); }

  // Which layers compute with integers, and why others do not.
  const QuantizeReport& report() const { return report_; }

 private:
  QuantizedModel(Graph graph, Ranges ranges, QuantizeOptions options, std::vector<LayerBits> bits)
      : graph_(std::move(graph)),
        ranges_(std::move(ranges)),
        options_(std::move(options)),
        bits_(std::move(bits)) {}
  Status ChooseScales();
  // Raises scales of weights where a bias is near the end of int32 in steps of its sums.
  void FitBiases();
  Result<Graph> Quantize(const Graph& graph, const GivenTypes& given) const;

  Graph graph_;  // float32
  Ranges ranges_;
  QuantizeOptions options_;
  std::vector<LayerBits> bits_;  // of weights
  GivenTypes given_;             // the scales
  // By the name of a value or weight in graph_, the parameter that is the logarithm of its scale.
  std::map<std::string, std::string> steps_;
  Graph simulation_;
  QuantizeReport report_;
};

}  // namespace evoq
