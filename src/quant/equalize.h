#pragma once

#include <set>

#include "graph/graph.h"
#include "quant/quant.h"

namespace evoq {

// Makes the channels of activations use more of their 8 bits. For a value v >= 0 that an integer
// Conv or MatMul A computes (with no activation, Relu, or Clip from 0) and that only integer Convs
// and MatMuls B read: channel c of A's weights and bias is multiplied by t[c] >= 1, and the weights
// of each B that read channel c are divided by it. v's range T stays:
//   t[c] = min(max(1, wish[c]), T / (1.25 max[c])),  the margin being for values that calibration
//   did not see.
// A's weights, and those of a depthwise B, have a scale per channel, which absorbs t: the wish is
// without limit. In another B the weights of channel c lose precision against their row. With
// independent rounding errors, a = T / 255 of v and s = |w|max / 127 of the weights, the variance
// s^2 t^2 x[c]^2 + a^2 w[c]^2 / t^2 is least for
//   wish[c] = sqrt(a w[c] / (s x[c])),
// x[c]: size of the channel's elements, sqrt(mean max); w[c]: root mean square of the weights that
// read it. Updates the ranges' channel statistics. Returns how many values were equalized.
int EqualizeChannels(Graph& graph, const std::set<NodeId>& integer, Ranges& ranges);

}  // namespace evoq
