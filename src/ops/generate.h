// What inference and evaluation of Shape and ConstantOfShape share.
#pragma once

#include "ops/util.h"

namespace evoq {

struct AxisRange {
  int64_t start, end;
};

AxisRange ShapeRange(const Node& node, int64_t rank);

Result<Tensor> FillValue(const Node& node);

}  // namespace evoq
