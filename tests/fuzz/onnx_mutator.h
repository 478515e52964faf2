// Changes to an ONNX model that keep it a message: types, shapes, values, attributes, edges, nodes,
// subgraphs, functions, operator sets.
#pragma once

#include <random>

#include "onnx/proto.h"

namespace evoq {

// A few random changes.
void MutateModel(onnx::ModelProto& model, unsigned seed);

// `model` with the nodes of `other` behind its own, some of which read the model's values.
void CrossModels(onnx::ModelProto& model, const onnx::ModelProto& other, unsigned seed);

}  // namespace evoq
