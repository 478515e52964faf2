// The sizes that a model declares to be prepared for (its gears, docs/dynamic.md), and observed
// ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/model.h"

namespace evoq {

// Of an input, by name, its sizes in each gear: all of them, or the one that the model leaves free.
using GearSizes = std::map<std::string, std::vector<std::vector<int64_t>>>;

// Of "NAME=1,8,16" and "NAME=1x128,8x128", one for each input. Errors: kUsage.
Result<GearSizes> ParseGears(const std::vector<std::string>& options);

// The sets of sizes for a graph whose inputs leave sizes free. Errors: kUsage where inputs have
// another number of gears, for an input that there is not, and for sizes that do not fit it.
Result<std::vector<InputShapes>> GearsFor(const GearSizes& gears, const Graph& graph);

// Declares these sets: kShapesChoice. Requires the same inputs in all.
void DeclareGears(const std::vector<InputShapes>& sets, Graph& graph);

// How often sizes came.
struct ObservedSizes {
  InputShapes shapes;
  int64_t runs = 0;
};

// A file of sizes, a line for each: "RUNS NAME=1x128 NAME=1x128", as sessions save it
// (engine/size_counts.h). The number may be left out (1), the name where the graph has one input,
// and sizes may be a number for the free one. Lines of the same sizes add up. Errors: kInvalidInput
// naming the line; those of reading.
Result<std::vector<ObservedSizes>> ReadObservedSizes(const std::string& path, const Graph& graph);

}  // namespace evoq
