// Models to measure: loaded at the sizes and on the inputs that are asked for, also those that run
// in dynamic partitions (docs/dynamic.md).
#pragma once

#include <string>
#include <vector>

#include "profile/measure.h"
#include "workflow/models.h"

namespace evoq {

// The sizes of all inputs: of what is `given`, else of `shapes`, else the model's, free first sizes
// being 1. Errors: kUsage for a size that nobody names.
Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes,
                                    const InputContents& given);

// What is measured of a model.
struct WhatToMeasure {
  InputShapes shapes;
  InputFiles inputs;
  int batch = 0;
  bool stored_tuning = true;
};
struct ModelToMeasure {
  std::unique_ptr<Engine> engine;
  InputShapes shapes;          // for Engine::At; of all inputs where it runs in partitions
  InputContents contents;      // of the files
  bool in_partitions = false;  // no single Program: for Engine::Run
};
// Errors: those of loading, of ReadInputs and of ShapesToMeasure.
Result<ModelToMeasure> LoadToMeasure(const std::string& path, int threads,
                                     const WhatToMeasure& what);

// The model at other sizes, batch or inputs. Errors: as of LoadToMeasure.
Status Settle(ModelToMeasure& m, const WhatToMeasure& what);

// Inputs of these sizes in the graph's order: what is given, else FillForSpeed. Errors: kUsage for
// an input that numbers cannot fill.
Result<std::vector<Tensor>> InputsToMeasure(const Graph& graph, const InputShapes& shapes,
                                            const InputContents& given);

// What runs it: the executor, or the dynamic partitions that the inputs make run. Its sample are
// the inputs, where files or partitions make their content count.
Result<std::shared_ptr<Runnable>> RunnableOf(const ModelToMeasure& m);

// What runs it, after a first run, with what it ran on.
struct FirstRun {
  std::shared_ptr<Runnable> runnable;
  RunBuffers buffers;
  double ready_ms = 0;  // to prepare it for these shapes
  double first_ms = 0;  // of the run; of partitions with ready_ms, for the run prepares them
};
Result<FirstRun> RunFirst(const ModelToMeasure& m);

// Measures each step's choices for the shapes. `path` is for messages. Errors: kUsage for a model
// in partitions.
Result<TuneReport> TuneToMeasure(const ModelToMeasure& m, const std::string& path);

// Errors: kUsage for several streams of a model in partitions. `path` is for messages.
Status CheckStreams(const ModelToMeasure& m, const std::string& path, int streams);

// Gives models without a sample that of the others, so that all are measured on the same inputs.
// `names` are for messages. Errors: kUsage where they do not take it.
Status MeasureAlike(std::span<Runnable* const> models, std::span<const std::string> names);

}  // namespace evoq
