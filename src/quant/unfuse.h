#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace evoq {

// Whether the node carries a fused activation that integer arithmetic computes by a table (not
// Relu, Clip, LeakyRelu).
bool HasTableActivation(const Node& node);

// Whether it carries one that other runtimes do not take into an integer operator's rounding (not
// Relu, Clip).
bool HasForeignActivation(const Node& node);

// Whether the node carries a fused PRelu, which integer arithmetic alone computes.
bool HasSlopes(const Node& node);

// Takes an activation off the node again: output v becomes the activation node's, the node
// computes v.linear. Integer operators need the range of v.linear, so calibration and quantization
// both split, and names agree.
void SplitActivation(Graph& graph, NodeId node);

// Whether a linear operator adds a residual.
bool HasResidual(const Node& node);

// Takes the residual, and with it the activation, off a linear operator again: the node computes
// v.product, and an Add node computes v. Calibration watches v.product so that a quantization that
// asks for it (QuantizeOptions::split_residual) has its range.
void SplitResidual(Graph& graph, NodeId node);

// Whether the node is an Attention that two products and a Softmax of float32 say as well: without
// a cache, lengths, windows, causal order or groups of heads, and of at most 2^26 scores.
bool IsPlainAttention(const Graph& graph, const Node& node);
// The name of the Softmax's result that SplitAttention makes.
std::string AttentionWeightsName(const Node& node);

// Writes a plain Attention as MatMul, Mul, Add of the mask, Softmax, and MatMul of the node's own
// name, between the Transposes that its heads need: integer arithmetic has those. Bools that hide
// keys become 0 and -1e30. Calibration and quantization both split, as above.
void SplitAttention(Graph& graph, NodeId node);

// Where a runtime wants Q/DQ pairs in an ONNX file so that it computes in integers.
struct QdqTarget {
  const char* name;  // of `quantize --target`
  const char* doc;
  const char* runtime;    // that tells which pairs lead nowhere (foreign/forecasts); "": none
  bool split_residual;    // on the product that a residual is added to
  bool split_activation;  // between the operator and an activation that is not Relu or Clip
  bool quantize_results;  // of convolutions that only float operators read: its integer convolution
                          // writes integers
  bool symmetric;  // int8 activations with zero point 0, biases in float: what it reads, not what
                   // it prefers
};
std::span<const QdqTarget> AllQdqTargets();
// By its name or by that of the runtime that tells where pairs lead: `ort` is `ort-cpu`.
const QdqTarget* FindQdqTarget(std::string_view name);

}  // namespace evoq
