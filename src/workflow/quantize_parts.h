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

}  // namespace evoq
