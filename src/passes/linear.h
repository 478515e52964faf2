// Output channels of linear operators (ops/roles.h): what normalization, scales and biases fold
// into.
#pragma once

#include <utility>
#include <vector>

#include "passes/match.h"

namespace evoq {

// The axis of output channels in the node's output; -1 when the rank that it needs is unknown.
int ChannelAxis(const Graph& graph, const Node& linear);
// Their number, from the weights' shape.
std::optional<int64_t> OutputChannels(const Graph& graph, const Node& linear);

// The constant as one value per channel when, broadcast over a tensor of `rank` dimensions, it
// varies along `axis` only.
std::optional<std::vector<float>> PerChannel(const Graph& graph, ValueId constant, int rank,
                                             int axis, int64_t channels);

// Plain float arithmetic with no activation yet, so that an addition after it can move into its
// bias.
bool TakesBias(const Graph& graph, const Node& linear);
// Also no residual, and constant weights (float, or quantized behind a DequantizeLinear): a factor
// after it can move into them. Quantized weights take its size into their scales and its sign, when
// it is negative, into their integers.
bool TakesFactor(const Graph& graph, const Node& linear, const std::vector<float>& factor);

// y[c] *= factor[c], through weights and bias. Needs TakesFactor.
void ScaleChannels(Graph& graph, NodeId linear, const std::vector<float>& factor);
// The same of the weights alone: what a factor of a depthwise operator's input channels comes to.
void ScaleWeights(Graph& graph, NodeId linear, const std::vector<float>& factor);
// y[c] += offset[c], through the bias. Needs TakesBias.
void OffsetChannels(Graph& graph, NodeId linear, const std::vector<float>& offset);
// Pass fold-bias at one node: whether a constant per channel that is added behind it moved into its
// bias.
bool FoldOffset(Graph& graph, NodeId linear);

// The PRelu that alone reads what a Conv or MatMul computes, with a constant slope for each output
// channel: {node, slopes}; else nothing.
std::optional<std::pair<NodeId, std::vector<float>>> SlopesBehind(const Graph& graph,
                                                                  NodeId linear);
// Makes that PRelu the node's activation, which integer arithmetic alone computes
// (kernels/activation.h). Returns whether there is one.
bool TakeSlopes(Graph& graph, NodeId linear);

// Replaces the node's constant input i: in place when nothing else reads it, so that it keeps its
// name.
void ReplaceConstant(Graph& graph, NodeId id, size_t i, Tensor tensor);

}  // namespace evoq
