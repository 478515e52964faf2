// How sensitive a model is to the quantization of each of its layers.
#pragma once

#include <optional>
#include <string>

#include "parity/sensitivity.h"
#include "workflow/follow.h"
#include "workflow/probe.h"
#include "workflow/quantize.h"
#include "workflow/told.h"

namespace evoq {

struct SensitivityJob {
  // The model, how it is quantized and what calibrates; nothing is written. Without data of its own
  // it calibrates on what `probe` names.
  QuantizeJob quantize;
  ProbeOptions probe;  // what outputs are compared on
  // Layers are looked for that, left in float, give every output so much signal to noise.
  std::optional<double> min_sqnr_db;
  std::string report;  // an HTML file to write; "": none
};

struct SensitivityFound {
  std::string model, scheme, method;
  int64_t samples = 0, calibration_samples = 0;
  Sensitivity result;
  double seconds = 0;
  std::string report;  // the file that was written; "": none
};

// Errors: kUsage for options that do not fit; those of MeasureSensitivity, loading, data and
// calibration.
Result<SensitivityFound> FindSensitivity(const SensitivityJob& job, const Follow& follow = {});
Told Tell(const SensitivityFound& found);

}  // namespace evoq
