// What methods that round weights by the layers' inputs share.
#pragma once

#include <string>

#include "quant/layer_rounding.h"
#include "quant/method.h"

namespace evoq {

// QuantMethod::refuses of methods that round.
std::string RoundsNoWeights(const QuantScheme& scheme, const QuantizeOptions& options);
// The same of methods that round up or down to whole numbers.
std::string RoundsNoWholeNumbers(const QuantScheme& scheme, const QuantizeOptions& options);
// The same of methods that search a scale for each block or channel.
std::string HasNoScales(const QuantScheme& scheme, const QuantizeOptions& options);
// The same of methods that choose zero points.
std::string HasNoZeroPoints(const QuantScheme& scheme, const QuantizeOptions& options);

// One matrix that is to be rounded.
struct RoundedLayer {
  const WeightGrid& grid;
  int64_t group;
  // What is to be rounded, [depth, columns]: the weight, refitted so that the layer's results come
  // as near as they can to those of the float model, whose inputs have no errors of other weights
  // (GPTAQ, Li et al. 2025, arXiv:2504.02692; residuals included).
  std::span<const float> w;
  std::span<const double> damped;  // X^T X with 1% of the mean of its diagonal, [depth, depth]
  const RoundedMatrix* before;     // what a method before has chosen; null: nothing
  RoundingTools tools;
};

// To the nearest, with scales of the least error by the sizes of the inputs.
RoundedMatrix NearestBySize(const RoundedLayer& layer);

// Rounds every layer's matrices (RoundLayers, quant/gram.h) by `round`.
Status RoundMatrices(MethodRun& run, Result<RoundedMatrix> (*round)(const RoundedLayer& layer));

}  // namespace evoq
