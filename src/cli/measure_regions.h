// Loading models to measure them: also those that are no single Program (engine/regions.h), and
// with inputs whose content matters.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/common.h"
#include "profile/measure.h"
#include "report/ledger.h"

namespace evoq {

// The sizes of all inputs: of `files` ("NAME=F.npy"), else of `shapes`, else the model's, free
// first sizes being 1. Errors: kUsage for a size that nobody names, an unknown input, a file that
// does not fit.
Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes,
                                    const std::vector<std::string>& files);

// The options of `bench` and `profile` that say what is measured.
struct WhatToMeasure {
  std::vector<std::string> shapes, inputs;
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
                                            const std::vector<std::string>& files);

// docs/cli.md's fields of `bench` for a model in regions, after it has run.
nlohmann::json RegionsJson(const std::string& model, Engine& engine,
                           const std::vector<Tensor>& inputs, const RunTimes& times,
                           double load_ms);

// What runs it: the executor, or the dynamic partitions that the inputs make run. Its sample are
// the inputs, where `files` or partitions make their content count.
Result<std::shared_ptr<Runnable>> RunnableOf(const ModelToMeasure& m,
                                             const std::vector<std::string>& files);

// Gives models without a sample that of the others, so that all are measured on the same inputs.
// `names` are for messages. Errors: kUsage where they do not take it.
Status MeasureAlike(std::span<Runnable* const> models, std::span<const std::string> names);

}  // namespace evoq
