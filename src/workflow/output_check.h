// A first look at what a quantization loses, before anybody measures it.
#pragma once

#include <string>
#include <vector>

#include "workflow/quantize.h"

namespace evoq {

// Runs both models on the first few samples that the job calibrated on, and warns of the worst
// output of real numbers where it keeps less than 10 dB of signal to noise. Takes a compilation of
// the float model and four runs of each. Nothing where the samples were made up, and where a model
// does not run on them. Errors: the caller stopped it.
Result<std::vector<std::string>> OutputWarnings(const QuantizeJob& job, Graph float_graph,
                                                const Model& quantized, const InputShapes& shapes,
                                                const Follow& follow);

}  // namespace evoq
