#include "train/simulation.h"

#include "quant/params.h"

namespace evoq {

#define EVOQ_ROW_TYPE GradientDef
#define EVOQ_ROW_FILE "train/simulations.inc"
#include "base/rows.inl.h"

std::span<const GradientDef* const> AllSimulations() { return kAllRows; }

float StepOf(float log_step) { return ShortScale(std::exp(static_cast<double>(log_step))); }

StepBounds StepBounds::Of(const Attrs& attrs, const std::string& prefix) {
  return {attrs.Float(prefix + "_low"), attrs.Float(prefix + "_high"), attrs.Int(prefix + "_zero")};
}

void StepBounds::To(Attrs& attrs, const std::string& prefix) const {
  attrs.Set(prefix + "_low", low);
  attrs.Set(prefix + "_high", high);
  attrs.Set(prefix + "_zero", zero);
}

}  // namespace evoq
