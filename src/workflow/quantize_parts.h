// What every task does with a job that says how to quantize a model.
#pragma once

#include <string>
#include <vector>

#include "quant/quant.h"
#include "workflow/quantize.h"

namespace evoq {

// Scheme, methods, observer, model and numbers of the job; not what it writes. Errors: kUsage.
Status CheckQuantization(const QuantizeJob& job);

QuantizeOptions OptionsOf(const QuantizeJob& job);

// A window of a text begins with empty caches, which is no fault of the samples: takes out warnings
// of them.
void ForgetEmptyCaches(const Graph& graph, std::vector<std::string>& warnings);

// The layers whose weights a file holds in fewer than 8 bits, and how many.
std::map<std::string, int> NarrowLayers(const Graph& graph);
// Of all constants that are narrower than float32, as a file holds them. `narrow`: NarrowLayers.
int64_t QuantizedWeightBytes(const Graph& graph, const std::map<std::string, int>& narrow);

}  // namespace evoq
