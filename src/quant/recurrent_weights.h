// The weights of recurrent operators, [directions, gates * hidden, K]: each row is a channel.
#pragma once

#include "quant/low_bits.h"
#include "quant/quant.h"

namespace evoq {

// An operator with several weights, each by rows: RNN, GRU and LSTM.
bool IsRecurrent(const Node& node);
// The inputs of a recurrent operator that are weights.
std::vector<size_t> RecurrentWeights(const Node& node);

// Whether it has quantized weights already and rounds its data.
bool ComputesRounded(const Graph& graph, const Node& node);

// Why its weights stay as they are, or nothing: the options keep it, a weight is computed, of
// another type, or together they are too few.
std::optional<Reason> RecurrentRefusal(const Graph& graph, const Node& node,
                                       const QuantizeOptions& options);

// Why its weights are quantized but its products are float32's: those of the state are so small
// that rounding it at each step costs more than integers save; or nothing.
std::optional<Reason> FloatProductsReason(const Graph& graph, const Node& node);

// A weight, plain float32 of rank 3. `low` null: int8, q = clamp(round_half_even(w / s), -127,
// 127) with s = max |w| / 127 of each row (per_channel) or of the whole weight; else numbers of few
// bits in blocks of `block` (0: one) along the last axis. Rows of one direction have their scales
// on axis 1, those of two in blocks that are whole rows. The result does not depend on `threads`.
// Errors: kInvalidInput for a NaN or an infinity.
Result<Tensor> QuantizeRecurrent(const Tensor& weight, const LowBits* low, int64_t block,
                                 bool per_channel, int threads);

// The data_block (kernels/gemm/blocks/block_data.h) that goes with such weights: DataBlockBeside
// those of few bits, whole rows beside int8.
int64_t RecurrentDataBlock(const Graph& graph, const Node& node, const LowBits* low,
                           const QuantizeOptions& options);

// The weights of the subgraphs of a graph, and of theirs, as QuantizeWeights does them in a graph
// (weights_only.cc), by rounding to nearest whatever the options' method. The report counts what
// was quantized, and has the reasons of what was not, under names like "If_0/cell".
Result<QuantizeReport> QuantizeBodies(Graph& graph, const QuantizeOptions& options, WeightsAs as);

}  // namespace evoq
