// Loading models to measure them: also those that are no single Program (models/regions.h), and
// with inputs whose content matters.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profile/measure.h"
#include "report/ledger.h"
#include "workflow/models.h"

namespace evoq {

// The sizes of all inputs: of `files`, else of `shapes`, else the model's, free
// first sizes being 1. Errors: kUsage for a size that nobody names, an unknown input, a file that
// does not fit.
Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes,
                                    const InputFiles& files);

// What is measured of a model.
struct WhatToMeasure {
  InputShapes shapes;
  InputFiles inputs;
  int batch = 0;
  bool stored_tuning = true;
};
struct ModelToMeasure {
  std::unique_ptr<Engine> engine;
  InputShapes shapes;       // for Engine::At; of all inputs where it runs in regions
  bool in_regions = false;  // no single Program: for Engine::Run
};
// Errors: those of loading and of ShapesToMeasure.
Result<ModelToMeasure> LoadToMeasure(const std::string& path, int threads,
                                     const WhatToMeasure& what);

// Inputs of these sizes in the graph's order: the files' content, else FillForSpeed.
Result<std::vector<Tensor>> InputsToMeasure(const Graph& graph, const InputShapes& shapes,
                                            const InputFiles& files);

// docs/cli.md's fields of `bench` for a model in regions, after it has run.
nlohmann::json RegionsJson(const std::string& model, Engine& engine,
                           const std::vector<Tensor>& inputs, const RunTimes& times,
                           double load_ms);

// What runs it: the executor, or the dynamic partitions that the inputs make run. Its sample are
// the inputs, where `files` or partitions make their content count.
Result<std::shared_ptr<Runnable>> RunnableOf(const ModelToMeasure& m, const InputFiles& files);

// Gives models without a sample that of the others, so that all are measured on the same inputs.
// `names` are for messages. Errors: kUsage where they do not take it.
Status MeasureAlike(std::span<Runnable* const> models, std::span<const std::string> names);

}  // namespace evoq
