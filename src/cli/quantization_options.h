// Options that say how a model is quantized, of verbs that do so.
#pragma once

#include "cli/options.h"
#include "workflow/quantize.h"

namespace evoq {

// --scheme and --method; `besides`: of --scheme, what the verb takes beside `evoq list schemes`.
void AddSchemeOptions(const VerbOptions& options, QuantizeJob& job, const char* besides = "",
                      const char* besides_methods = "");
// --calib-limit and --samples.
void AddCalibrationLimits(const VerbOptions& options, QuantizeJob& job);
// --observer and --percentile.
void AddObserverOptions(const VerbOptions& options, QuantizeJob& job);
// --observer to --symmetric: ranges, weights and activations.
void AddNumberOptions(const VerbOptions& options, QuantizeJob& job);
// --exclude and --ranges.
void AddLayerAndRangeOptions(const VerbOptions& options, QuantizeJob& job);

}  // namespace evoq
