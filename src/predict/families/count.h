// What families count alike.
#pragma once

#include "predict/cost.h"

namespace evoq {

inline double Vectors(int64_t elements) { return static_cast<double>(elements) / 16; }

// Activations and constants read, results written.
inline void CountBytes(const CostInput& input, const Rates& rates, Terms& terms) {
  const auto bytes = static_cast<double>(input.activation_bytes());
  terms[kStream] = rates.stream_ns(bytes, bytes / rates.limits.threads);
  terms[kWeights] = rates.stream_ns(static_cast<double>(input.weight_bytes()),
                                    static_cast<double>(input.run_bytes) / rates.limits.threads);
}

inline void CountOutputs(const CostInput& input, const Rates& rates, Terms& terms) {
  terms[kOutputs] = Vectors(input.out_elements()) * rates.cycle_ns;
  if (input.has_curve()) terms[kCurve] = terms[kOutputs];
}

}  // namespace evoq
