// Which channels of a graph go.
#pragma once

#include <functional>
#include <span>

#include "prune/channels.h"
#include "prune/score.h"

namespace evoq {

struct ChannelChoice {
  const PruneScore* score = nullptr;
  double share = 0.5;         // of the channels that may go, those that do
  bool global = false;        // of all layers together; else of each bundle
  int64_t multiple = 1;       // of channels that stay in a bundle, where it has as many
  std::vector<bool> may_go;   // by group; empty: all that do not stay by themselves
  std::vector<bool> removed;  // groups that went before, first of all; empty: none
};

// The numbers of a constant, and what was observed of them (PruneScore::observe). Empty spans: it
// says nothing of its channels.
struct ChannelNumbers {
  std::span<const float> weights, observed;
};

using NumbersOf = std::function<ChannelNumbers(const ChannelSlices&)>;

// A flag for each group. Of each bundle, each value and each constant one group stays at least. The
// score of a group is made of those that the row gives for each slice of its constants, all along
// one axis as the blocks of a layer: their sum over a group for ScoreScale::kLoss (each times its
// weights), else their mean, for ScoreScale::kLayer of scores in units of the constant's mean
// score. Ties go to the group of the lowest number. The same on every machine.
std::vector<bool> ChooseChannels(const Graph& graph, const Channels& channels,
                                 const ChannelChoice& choice, const NumbersOf& numbers);

}  // namespace evoq
