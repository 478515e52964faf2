// How much each layer of a quantized model adds to the error of its outputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "certify/samples.h"
#include "parity/output_error.h"
#include "quant/method.h"
#include "quant/outliers.h"

namespace evoq {

struct SensitivityInput {
  const QuantScheme* scheme = nullptr;
  MethodChoice methods;
  Graph graph;  // optimized, float32: what is right
  Ranges ranges;
  QuantizeOptions options;
  MethodData data;    // of the methods
  PrepareFn prepare;  // of every run
  // A wish: layers are looked for that, left in float, give every output so much signal to noise.
  std::optional<double> min_sqnr_db;
  OnStage progress;
};

struct LayerSensitivity {
  std::string name, op;  // of the node
  OutputError alone;     // it alone is quantized
  OutputError spared;    // it alone stays as it is, all other layers are quantized
  // 1 for the layer that matters most: by the noise of `alone`, by how little is left in `spared`.
  int rank_alone = 0, rank_spared = 0;
};

// Layers to leave in float.
struct Exclusion {
  std::vector<std::string> layers;  // in execution order
  OutputError error;                // of the model with all others quantized
  int tried = 0;                    // sets of layers that were measured
};

struct Sensitivity {
  Metric metric = Metric::kSqnr;
  std::optional<double> float_metric;    // of the float model
  OutputError all;                       // every layer is quantized
  std::vector<LayerSensitivity> layers;  // in execution order
  std::vector<TensorOutliers> tensors;   // that layers read
  std::optional<Exclusion> exclusion;    // of the wish
  std::vector<std::string> warnings;     // of the methods
};

// A layer is a node whose weight or arithmetic the scheme quantizes by its own: a linear operator
// or a table that is looked up. What lies between layers follows them, as in `evoq quantize
// --exclude`. Float and rounding methods run once, and each layer keeps what they chose for it.
//
// Outputs are compared with those of `graph`; of a text its logits alone.
//
// The wish: layers are taken in the order of rank_alone; the least number of them is found by
// bisection, and then each layer that can be given back is. Where methods choose anew with layers
// left out, the result is measured once more with them, and layers are added as long as it falls
// short.
//
// Errors: kUsage where the scheme quantizes no layer; kConditionFailed for a wish that no layers
// fulfil; those of quantization and runs.
Result<Sensitivity> MeasureSensitivity(const SensitivityInput& input, const Samples& samples);

}  // namespace evoq
