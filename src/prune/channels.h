// Channels of a graph that stand or fall together: what removing one takes with it.
//
// The outputs of a product with a constant weight are channels. They pass through what computes
// element by element, pools, normalizes by channel, moves or joins them, to the products that read
// them. A sum makes one of the channels that it adds, as a depthwise convolution does of its input
// and output; so channels form groups, which are removed whole ("dependency graph" in Fang et al.,
// "DepGraph: Towards Any Structural Pruning", 2023). Groups that reach what evoq does not follow
// (an output of the model, a normalization over channels, ...) stay, and say why.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

struct ChannelGroup {
  // Groups of channels of the same layers have one bundle: the number of its first group.
  int32_t bundle = 0;
  std::string stays;  // why it may not be removed; "": it may
};

// The channels along an axis: the group of each index.
struct AxisGroups {
  int axis = 0;
  std::vector<int32_t> groups;
};

// Numbers of a constant that belong to channels.
struct ChannelSlices {
  ValueId constant;
  AxisGroups along;
  bool scored = false;    // a weight or the scale of a normalization, which says what a channel is
                          // worth
  bool consumes = false;  // along the input channels of a product
};

// A product whose outputs are channels.
struct ChannelLayer {
  NodeId node;
  ValueId weight;
  std::vector<int32_t> outputs, inputs;  // groups; of no input where its channels are not followed
};

// A place in a list of sizes or counts that names a number of channels.
struct ChannelSize {
  NodeId node;
  size_t input = 0;  // a constant list of int64
  int axis = 0;      // the element, which is the number of the channels of output 0 along this axis
};

struct Channels {
  std::vector<ChannelGroup> groups;
  std::vector<ChannelLayer> layers;            // in execution order
  std::vector<ChannelSlices> slices;           // one for each constant and axis
  std::map<ValueId, AxisGroups> values;        // computed values that have channels
  std::vector<ChannelSize> sizes;              // to be written anew
  std::vector<NodeId> grouped, splits;         // products with groups; Splits of channels
  std::vector<std::string> sizes_at_run_time;  // nodes whose sizes the model computes itself
};

// Follows the channels of a float32 graph whose types are inferred. `follow_computed`: also through
// operators whose sizes the model computes, which RemoveChannels then has to prove right.
Channels FollowChannels(const Graph& graph, bool follow_computed);

// The same, where computed sizes are followed only if the model's shapes come out right when any
// channels are removed.
Channels FindChannels(const Graph& graph);

// Removes the channels of these groups (one flag each, none of a group that stays, and of no layer
// all): from constants, attributes and lists of sizes. Types are inferred anew and compared with
// what was to come. Errors: kUnsupported naming the value whose shape is another; the graph is then
// not to be used.
Status RemoveChannels(Graph& graph, const Channels& channels, const std::vector<bool>& removed);

}  // namespace evoq
