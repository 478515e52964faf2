// Tensors as JSON: the numbers in row-major order, flat or nested as the shape is.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "serve/refusal.h"
#include "tensor/tensor.h"

namespace evoq::serve {

// Fills the tensor of its type from `data`. `what` stands before messages ("input x"). Errors:
// kBadRequest for another number of elements, another nesting than the shape's, and for numbers
// that the type does not have.
Served<void> FillFromJson(const nlohmann::json& data, const std::string& what, Tensor& tensor);

// Appends "[1,2.5,...]", flat; floats in the fewest digits that give the same bits. False for a NaN
// or an infinity.
bool AppendJson(const Tensor& tensor, std::string& to);

}  // namespace evoq::serve
