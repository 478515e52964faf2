// What inference and evaluation of optional values share.
#pragma once

#include "tensor/type.h"

namespace evoq {

bool IsOptional(const TensorType& type);

}  // namespace evoq
