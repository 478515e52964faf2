// Matrices whose numbers no integers with a scale give: float32 of what a checkpoint stands for.
#pragma once

#include <functional>
#include <string>

#include "llm/stored_tensor.h"

namespace evoq {

// The weight [outputs, inputs], float32, of which `row` writes row n. `parts`, what it reads, stay
// mapped. Errors of the constant: kInvalidInput for an element that is no finite number; kTooLarge.
StoredTensor FloatMatrix(std::string format, int64_t outputs, int64_t inputs,
                         std::function<void(int64_t n, float* to)> row,
                         std::vector<StoredTensor> parts);

}  // namespace evoq
