// Quantization with several scale sets (docs/adaptive.md).
#pragma once

#include <string>
#include <vector>

#include "quant/method.h"
#include "workflow/follow.h"
#include "workflow/quantize.h"

namespace evoq {

// Whether the job asks for several sets: QuantizeJob::scale_sets is not empty.
bool HasScaleSets(const QuantizeJob& job);

// That sets fit the rest of the job. Errors: kUsage.
Status CheckScaleSets(const QuantizeJob& job);

// The data of sets that are given by name, which calibrate all together: as of QuantizeJob::calib;
// empty for a number of sets.
std::vector<std::string> DataOfSets(const QuantizeJob& job);

// The sets of a model and the bytes that its .etm has for each; none of a model with one.
Result<std::vector<QuantizedSet>> SetsOf(const Model& model, const std::string& path);
// As lines and a list.
Told Tell(const std::vector<QuantizedSet>& sets);

// What the job asks for of sets beside the graph.
struct SetInputs {
  InputShapes shapes;  // to plan for
  const Ranges& ranges;
  MethodChoice methods;
  const MethodData& data;  // all samples; also where no method needs them
  QuantizeOptions options;
};

// Quantizes the graph once for each set, with weights that all share, lowers and packs it. `note`
// is called with each quantized graph. The report is the first set's. Errors: kUsage for samples
// that are too few or too much alike.
struct ModelOfSets {
  Model model;
  QuantizeReport report;
};
Result<ModelOfSets> QuantizeScaleSets(const QuantizeJob& job, Graph graph, const SetInputs& inputs,
                                      const std::function<void(Graph&)>& note,
                                      const Follow& follow);

}  // namespace evoq
