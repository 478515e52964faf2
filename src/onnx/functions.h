// Functions of a model.
#pragma once

#include "base/result.h"
#include "onnx/proto.h"

namespace evoq {

// Replaces every node, of subgraphs too, that calls one of the model's functions by the function's nodes. Values of a call
// are named CALL/NAME. Errors: a function that calls itself, more than a million nodes, an operator set that differs from
// the model's.
Status InlineFunctions(onnx::ModelProto& model);

}  // namespace evoq
