// Functions of a model.
#pragma once

#include "base/result.h"
#include "onnx/proto.h"

namespace evoq {

// Replaces every node, of subgraphs too, that calls one of the model's functions by the function's nodes. Values of a call
// are named CALL/NAME. Errors: a function that calls itself, more than a million nodes, an operator set that evoq does not read.
Status InlineFunctions(onnx::ModelProto& model);

// The version of the node's domain where the function that it came from imports another one than the model; else 0.
int FunctionOpset(const onnx::ModelProto& model, const onnx::NodeProto& node);

}  // namespace evoq
