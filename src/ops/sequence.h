// What inference and evaluation of optional values share.
#pragma once

#include "ops/util.h"

namespace evoq {

bool IsOptional(const TensorType& type);

}  // namespace evoq
