// Measuring models that are no single Program (engine/regions.h), and inputs whose content matters.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/common.h"
#include "profile/measure.h"
#include "report/ledger.h"

namespace evoq {

// The sizes of all inputs: of `files` ("NAME=F.npy"), else of `shapes`, else the model's, free first sizes being 1.
// Errors: kUsage for a size that nobody names, an unknown input, a file that does not fit.
Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes, const std::vector<std::string>& files);

// Inputs of these sizes in the graph's order: the files' content, else FillForSpeed.
Result<std::vector<Tensor>> InputsToMeasure(const Graph& graph, const InputShapes& shapes, const std::vector<std::string>& files);

// CLI.md's fields of `bench` for a model in regions, after it has run.
nlohmann::json RegionsJson(const std::string& model, Engine& engine, const std::vector<Tensor>& inputs, const RunTimes& times, double load_ms);

// What each step takes, of all stages that ran, subgraphs' too; means over the timed runs. A step with a subgraph counts its inner steps
// itself and has what lies between them as its own time.
Result<StepProfile> ProfileRegions(Engine& engine, const std::vector<Tensor>& inputs, const Limits& limits, const MeasureOptions& options);

}  // namespace evoq
