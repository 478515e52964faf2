// Element types as the Open Inference Protocol names them.
#pragma once

#include "tensor/dtype.h"

namespace evoq::serve {

// "FP32", "INT8", "BOOL", ...; null for types that the protocol does not carry here: strings, and
// those without a name in it.
const char* DatatypeOf(DType dtype);

}  // namespace evoq::serve
