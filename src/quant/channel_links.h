// Values between products whose channels may be scaled or shifted: what is done to a channel where
// it is made is undone in the weights that read it.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "kernels/activation.h"

namespace evoq {

// A value that one linear operator with constant weights and without a residual makes, and that
// others read, each as its data alone; all mean the same axis by its channels.
struct ChannelLink {
  ValueId value;
  NodeId producer;
  std::vector<NodeId> readers;
  int64_t channels = 0;
  Activation activation;  // of the producer
};

// A linear operator with a plain float32 constant weight, a matrix where it takes two operands, and
// a bias that is a float32 constant or none.
bool HasPlainWeights(const Graph& graph, const Node& node);

// Those whose producer has an activation f(t x) = t f(x) for t > 0: none, Relu and LeakyRelu; also
// Clip from 0, which holds only up to its upper bound. In execution order.
std::vector<ChannelLink> ChannelLinks(const Graph& graph);

// The linear operators with constant weights that alone read the value, each as its data with
// `channels` channels on axis `axis` of the value's `rank`; empty where there are other readers,
// none, or the value is an output of the graph.
std::vector<NodeId> ChannelReaders(const Graph& graph, ValueId value, int axis, int rank,
                                   int64_t channels);

// The node's weights and bias get new constants: output channel m multiplied by factors[m].
void ScaleOutputs(Graph& graph, NodeId node, std::span<const double> factors);
// The node's weights: those that read channel c multiplied by factors[c].
void ScaleInputs(Graph& graph, NodeId node, std::span<const double> factors);
// The node's bias, which is made where there is none: terms[m] is added.
void AddToBias(Graph& graph, NodeId node, std::span<const double> terms);

}  // namespace evoq
