// From ONNX's QuantizeLinear and DequantizeLinear nodes to quantized types.
#pragma once

#include <optional>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// Gives values that stand between QuantizeLinear and DequantizeLinear nodes with constant
// parameters a quantized type, and those nodes their one-input form (docs/graph.md). A value gets
// the type only when everyone who writes or reads it agrees on the parameters; operators that
// merely move integers (Reshape, Transpose, Concat, ...) pass it on. Where that is not so, the
// nodes keep ONNX's inputs and plain integers. Constants are typed per reader. A Clip of the
// integers goes in front of their QuantizeLinear first.
Status TypeQuantizedValues(Graph& graph);

// The quantized type that a QuantizeLinear or DequantizeLinear node in ONNX form gives its integers
// (shape of input 0), or nothing when its parameters are not constant or have no QuantParams form
// (a scale of 0, a float64 scale, ...).
std::optional<TensorType> ConstantQuantType(const Graph& graph, const Node& node);

}  // namespace evoq
