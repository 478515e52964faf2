// Products whose first operand is the constant: W x = (x' W')'. Integer kernels and weights in few
// bits want the constant second, with a scale of each column.
#pragma once

#include <string>

#include "quant/quant.h"

namespace evoq {

// Multiply-accumulates for each element that a turned product moves, in x and in its result, from
// which on the turning pays: where bytes move, and where float32 does.
inline constexpr double kWorkOfBytes = 16, kWorkOfFloats = 64;

// Whether the node is a MatMul of a constant float32 matrix and something computed, without a bias
// and a residual, that brings at least `work` multiply-accumulates for each element it would move.
bool IsTurnable(const Graph& graph, const Node& node, double work);

// The names of what the turning adds: x and the result with their last two axes exchanged.
std::string TurnedInputName(const Graph& graph, const Node& node);
std::string TurnedResultName(const Graph& graph, const Node& node);

// Writes a turnable product as a MatMul of its own name with a constant second operand, between two
// Transposes. A constant that is added to each row of the result, and nothing else reads that,
// becomes the bias. Calibration and quantization both turn, and names agree. Needs Sort.
void TurnProduct(Graph& graph, NodeId node);

// Turns all such products but those that options keep, those of a graph that was given parameters,
// and, where there are ranges, those that were calibrated as they were.
Status TurnProducts(Graph& graph, const QuantizeOptions& options, double work,
                    const Ranges* ranges = nullptr);

}  // namespace evoq
