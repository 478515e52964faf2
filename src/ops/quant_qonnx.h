// What inference and evaluation of Quant share.
#pragma once

#include <string>

#include "base/result.h"

namespace evoq {

// QONNX's rounding modes. Errors: kInvalidInput for another name.
Result<float (*)(float)> QonnxRounding(const std::string& mode);

}  // namespace evoq
