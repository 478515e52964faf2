// What is trained of a graph, and in which memory: made once, from the graph and the number of
// samples in a shard.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/gradient.h"

namespace evoq {

// A constant of the graph that changes while it is trained: a parameter, or a moving average.
struct TrainedConstant {
  std::string name;  // of the graph's value
  Shape shape;
  int64_t offset = 0;  // in floats, of the memory of its kind
  int64_t elements = 0;
  bool decays = false;          // weight decay applies: of parameters with two axes or more
  std::optional<double> decay;  // of its own, in place of the recipe's
};

// Where a value of the plan lies.
struct TrainingPlace {
  enum class Kind { kNone, kConstant, kParameter, kAverage, kShard };
  Kind kind = Kind::kNone;
  int64_t offset = 0;     // in floats; of a constant, its index in `constants`
  int64_t gradient = -1;  // offset of its gradient, in the memory of its kind; -1: none is wanted
  int64_t floats = 0;     // of what a step computes
};

struct TrainingStep {
  Node node;
  BoundGradient bound;
  std::vector<TrainingPlace> x, y;
  int64_t saved = 0;             // offset
  bool differentiated = false;   // backward runs
  std::vector<int64_t> average;  // offsets of BoundGradient::averages
  // Gradients of values that begin with this step's backward, as zeros: offsets and floats.
  std::vector<std::pair<int64_t, int64_t>> fresh;
};

// A value that learns to be another model's (train/distill.h).
struct TrainingFeature {
  size_t index = 0;     // in TrainingPlanOptions::features
  size_t step = 0;      // that computes it
  TrainingPlace place;  // with a gradient
  TrainingPlace scale;  // of integers, the logarithm of their step; else none
  int64_t floats = 0;   // of a sample
};

struct TrainingPlanOptions {
  int64_t samples = 16;             // of a shard; where the graph fixes its batch, that
  std::vector<std::string> freeze;  // glob patterns of constants that stay as they are
  // Glob patterns of the only constants that are trained; none: all that can be.
  std::vector<std::string> only;
  std::string last = "Softmax";  // the operator that is left to the loss (train/loss.h)
  // Of a sample, as many rows of scores have a label each: of a text, its tokens.
  int64_t rows = 1;
  int64_t length = 0;      // sizes of inputs that the graph leaves free besides the batch; 0: none
  bool recompute = false;  // less memory for more time (TrainingPlan::segments); the same bits
  // Values that learn to be another model's, by name; those without a gradient are left out.
  std::vector<std::string> features;
  // Of quantized ones among them, the parameter that is the logarithm of their step.
  std::map<std::string, std::string> feature_steps;
};

struct TrainingPlan {
  int64_t samples = 0;             // of a shard
  std::vector<TensorType> inputs;  // of a shard
  std::vector<TrainingPlace> input_places;
  std::vector<TrainingStep> steps;  // in execution order
  std::vector<TrainedConstant> parameters, averages;
  std::vector<Tensor> constants;  // what steps read and nobody trains
  TrainingPlace scores;           // what the loss takes, [samples, rows, classes]
  std::vector<TrainingFeature> features;
  int64_t rows = 1, classes = 0;
  int64_t pieces = 0;  // tokens of inputs are below: the least table that they index; 0: any
  int64_t parameter_floats = 0, average_floats = 0;
  // Of one shard: values and what forward saves, then gradients, which lie where others lay before.
  int64_t value_floats = 0, gradient_floats = 0;
  // With recomputation: where each segment of the steps begins. What only its own steps read lies
  // where that of other segments does, and is computed again before the segment's backward.
  std::vector<size_t> segments;
};

// Every float32 constant at an input that its operator's row (train/gradient.h) calls
// differentiable is a parameter, but for data: single numbers (a factor 1 / 255) and masks (0 and
// at most -10000). Integers lie in memory as float32 numbers. Errors: kUnsupported naming all
// operators on the way to the output that have no gradient, and what a row does not take, for
// inputs that are neither float32 nor int64 nor int32; kInvalidInput for a graph of several
// outputs, or without a parameter; kUsage for a pattern that matches no parameter.
Result<TrainingPlan> MakeTrainingPlan(const Graph& graph, const TrainingPlanOptions& options);

// The same of a graph whose types are those of a shard.
Result<TrainingPlan> PlanShard(Graph shard, const TrainingPlanOptions& options);
// The graph with so many samples along the first axis of its inputs, and `length` along others that
// it leaves free. Errors: kUnsupported for inputs that have none, and for free ones without a
// length.
Result<Graph> ShardOf(const Graph& graph, int64_t samples, int64_t length = 0);

// The number of samples that the graph's inputs fix, 0 where they leave it free.
int64_t FixedBatch(const Graph& graph);

}  // namespace evoq
