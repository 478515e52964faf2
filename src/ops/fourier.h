// What inference and evaluation of DFT, STFT and MelWeightMatrix share.
#pragma once

#include "ops/util.h"

namespace evoq {

struct DftPlan {
  int axis = 0;
  bool inverse = false, onesided = false;
};

Result<DftPlan> DftPlanOf(const Node& node, int64_t axis, int rank);

Result<DType> SpectrumType(const Node& node);

Result<std::pair<int64_t, int64_t>> MelSizes(int64_t mels, int64_t length);

}  // namespace evoq
