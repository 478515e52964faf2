// Numbers as a model's input takes them.
#pragma once

#include "base/result.h"
#include "tensor/tensor.h"

namespace evoq {

// Any numbers become a float type; other types must be there already. Errors: kInvalidInput.
Result<Tensor> ToInputType(const Tensor& tensor, DType wanted);

}  // namespace evoq
