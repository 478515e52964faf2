// What training needs besides samples: integers to train with, a model to learn from.
#pragma once

#include "workflow/train.h"

namespace evoq {

// The model of an imported graph whose integers are trained: scales begin from ranges over some of
// the samples. Q/DQ pairs are those that ONNX Runtime computes with where an .onnx is written.
// Errors: those of QuantizedModel::Create and of calibration.
Result<std::unique_ptr<QuantizedModel>> IntegersOf(const TrainJob& job, Graph graph,
                                                   const LabelledSamples& samples,
                                                   const Follow& follow);

// Runs the job's teacher of `graph`, which is trained. Errors: those of loading it and of
// PairFeatures; kUsage for features of an .etm; kInvalidInput where it does not take the samples.
Result<TeacherHook> TeacherOf(const TrainJob& job, const Graph& graph,
                              const LabelledSamples& samples);

// To .onnx or .etm.
Status WriteModel(const Graph& graph, bool optimized_already, const std::string& path);

// What training with a weights-only scheme begins from: passes that fuse nothing, so that
// operators have gradients. Errors: those of passes and of the scheme.
Result<WeightRounder> PrepareWeights(const TrainJob& job, Graph& graph);
// The scheme itself, of what was trained, measured on `test`.
Status QuantizeTrained(const TrainJob& job, const LabelledSamples& test, Graph& graph,
                       Trained& out);

// What --lora begins from: the model without caches, its weights of the recipe's scheme, and
// adapters beside its products. Errors: those of passes, the scheme and BeginAdapters.
Status PrepareAdapters(const TrainJob& job, Graph& graph, Trained& out);
// What is left of them: a folder of adapters, or the model with them, merged where --lora says so.
Status WriteAdapted(const TrainJob& job, Graph graph);

}  // namespace evoq
