// Functions of a model.
#pragma once

#include "base/result.h"
#include "onnx/proto.h"

namespace evoq {

// Replaces every node, of subgraphs too, that calls one of the model's functions by the function's
// nodes. Values of a call are named CALL/NAME; a node whose function imports another version of its
// domain than the model carries that in kOpsetAttr (onnx/upgrade.h), which no node of the file
// keeps. Errors: a function that calls itself, more than a million nodes, an operator set that evoq
// does not read.
Status InlineFunctions(onnx::ModelProto& model);

}  // namespace evoq
