// What inference and evaluation of DeformConv share.
#pragma once

#include "ops/util.h"

namespace evoq {

struct DeformPlan {
  int64_t kernel[2], strides[2], dilations[2], pads[4], group, offset_group;
};

Result<DeformPlan> DeformPlanOf(const Node& node, const Shape& w);

}  // namespace evoq
