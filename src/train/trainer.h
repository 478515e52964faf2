// Training: a graph, labelled samples and a recipe, epoch by epoch.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/on_progress.h"
#include "graph/graph.h"
#include "prune/prune.h"
#include "train/quantized.h"
#include "train/ranks.h"
#include "train/recipe.h"
#include "train/samples.h"
#include "train/weight_rounder.h"

namespace evoq {

// What a model does on samples that it was not trained on.
struct Measured {
  std::optional<double> accuracy;  // the share of labels that have the largest score
  std::optional<double> loss;      // of tokens: the mean negative logarithm of their probability
  std::optional<double> error;     // of real targets: the mean squared difference of the outputs
};

// What an epoch was; losses and accuracies over the samples as they were trained on.
struct EpochReport {
  int64_t epoch = 0, epochs = 0;  // from 1 on
  double loss = 0;
  std::optional<double> accuracy;  // of labels
  std::optional<Measured> test;
  std::optional<double> sparsity;  // of the weights that are pruned, the share that is 0
  double lr = 0;                   // of its last step
  double seconds = 0;              // of its steps
  double images_per_s = 0;         // samples
  int64_t rows = 1;                // of scores in a sample: its tokens
  double remaining_s = 0;          // of the run
};

// The model that this one learns from (train/distill.h).
struct TeacherHook {
  // Its scores [batch, rows, classes], and behind them what `features` are to be; null without
  // distillation.
  std::function<Result<std::vector<Tensor>>(std::span<const Tensor> inputs)> run;
  std::vector<std::string> features;  // values of the graph that is trained
};

struct TrainingHooks {
  OnProgress progress;  // after every few steps, of the whole run; may be null
  // After each epoch; may be null. An error ends the run.
  std::function<Status(const EpochReport&)> epoch;
  // Measures the graph as it is trained so far; may be null.
  std::function<Result<Measured>(const Graph&)> test;
  TeacherHook teacher;
};

struct TrainingFiles {
  std::string model;       // what a checkpoint calls it
  std::string checkpoint;  // written after each epoch; "": none
  std::string resume;      // read first; "": none
};

struct TrainingOutcome {
  std::vector<EpochReport> epochs;    // of this run: without those before a resume
  int64_t resumed_at = 0;             // epochs that lay behind
  int64_t parameters = 0;             // numbers that were trained
  int64_t memory_bytes = 0;           // Learner::memory_bytes
  int64_t steps = 0;                  // of this run
  double seconds = 0;                 // of its steps, all epochs
  std::optional<PruneReport> pruned;  // of whole channels, which the graph then lacks
};

// What a graph is while it is trained, and where; each must outlive the training.
struct TrainedAs {
  QuantizedModel* quantized = nullptr;  // its simulation is trained, and the graph its integers
  WeightRounder* weights = nullptr;     // of the graph: its weights, rounded
  const Ranks* ranks = nullptr;
};

// Trains the graph's parameters (train/plan.h) in place. Where weights are rounded, hooks.test sees
// the rounded ones, and the graph has those behind them. Each epoch takes the samples in an order
// of its own, in whole batches: what is left over waits for another epoch. The result is the same
// bits for any number of threads, and for a run that was resumed. Errors: those of
// MakeTrainingPlan; kUsage for a recipe that does not fit; kInvalidInput for samples that do not
// fit the graph; kConditionFailed when the loss is no number any more; those of the hooks and of
// files. With ranks all processes call it alike, each computes a part of each batch, and all have
// the result, the same bits as one process has; the hooks and files of each are its own. Errors
// besides: kUsage for more processes than a batch has shards, kConditionFailed where they differ in
// recipe, data, parameters or instruction set.
Result<TrainingOutcome> TrainGraph(Graph& graph, const LabelledSamples& samples,
                                   const TrainingRecipe& recipe, const TrainingFiles& files,
                                   int threads, const TrainingHooks& hooks,
                                   const TrainedAs& as = {});

// How many samples (of texts, tokens) the simulation of integers and what was compiled of them
// agree on.
struct Agreement {
  int64_t samples = 0;
  int64_t classes = 0;  // whose largest score is of the same class; 0 of real targets
  int64_t scores = 0;   // whose scores are the same bits
  int64_t correct = 0;  // whose label has the largest score of the simulation
};
// Errors: as TrainGraph and MeasureAccuracy.
Result<Agreement> CompareWithSimulation(QuantizedModel& quantized, const LabelledSamples& samples,
                                        int threads);

// By the first output of the engine, as `evoq eval` measures it; of real targets, the mean squared
// difference. Errors: those of the engine; kInvalidInput for a label that is no class of the model
// and for targets of another size than its output.
Result<Measured> MeasureAccuracy(const Graph& graph, const LabelledSamples& samples, int threads);

}  // namespace evoq
