// Values of a graph on every sample.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quant/method.h"

namespace evoq {

// The part of `graph` that computes these values, which are its outputs; inputs stay as they
// are, but those that are known become constants.
// Values that are inputs or constants are left out.
Result<Graph> PartThatComputes(const Graph& graph, const std::vector<std::string>& values,
                               const std::map<std::string, Tensor>& known = {});

// Runs the graphs, which have the same inputs, on every sample and hands out for each sample the
// values of each graph, all[g][i] of values[i]. Errors: kInvalidInput where there is no sample.
using ValuesOfGraphs = std::vector<std::vector<Tensor>>;
Status ObserveValues(std::span<const Graph* const> graphs, const std::vector<std::string>& values,
                     const MethodData& data,
                     const std::function<Status(const ValuesOfGraphs& all)>& use);

// The same of one graph: value number `which` of the list, one at a time.
Status ObserveValues(const Graph& graph, const std::vector<std::string>& values,
                     const MethodData& data,
                     const std::function<Status(size_t which, const Tensor& value)>& use);

}  // namespace evoq
