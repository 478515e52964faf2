// Matrix products and convolutions as matrix products: [rows, depth] by [depth, columns] for each
// of `groups`, by tiles of a register block.
#include <algorithm>
#include <utility>

#include "base/math.h"
#include "kernels/conv/tap_sums.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/int8_sparse.h"
#include "ops/op.h"
#include "predict/families/count.h"

namespace evoq {
namespace {

const TensorType& WeightOf(const CostInput& input) {
  const OpDef* op = FindOp(input.node);
  const bool chosen = op != nullptr && op->alternatives >= 0;
  return input.args.inputs[chosen ? static_cast<size_t>(op->alternatives) : 1];
}

struct Product {
  int64_t rows = 1, columns = 1, depth = 1, groups = 1;
  int64_t taps = 1;
  int64_t width = 1;  // of a line of output pixels
  int64_t channels() const { return std::max<int64_t>(depth / taps, 1); }
};

Product ProductOf(const CostInput& input) {
  Product p;
  const int64_t outputs = std::max<int64_t>(input.Elements(input.args.outputs[0]), 1);
  const std::vector<int64_t> y = input.args.outputs[0].shape.sizes(),
                             w = WeightOf(input).shape.sizes();
  const int64_t last = y.empty() ? 1 : std::max<int64_t>(y.back(), 1);
  if (input.node.op.find("MatMul") != std::string::npos) {
    p.columns = last;
    p.depth = std::max<int64_t>(input.args.inputs[0].shape.sizes().back(), 1);
    if (w.size() > 2)
      p.groups = std::max<int64_t>(input.Elements(WeightOf(input)) / (p.depth * last), 1);
    p.rows = std::max<int64_t>(outputs / last / p.groups, 1);
    return p;
  }
  p.groups = std::max<int64_t>(input.node.attrs.Int("group", 1), 1);
  p.columns = std::max<int64_t>(last / p.groups, 1);
  p.rows = std::max<int64_t>(outputs / last, 1);
  for (size_t i = 2; i < w.size(); ++i) p.taps *= w[i];
  p.taps = std::max<int64_t>(p.taps, 1);
  if (y.size() > 1) p.width = std::max<int64_t>(y[y.size() - 2], 1);
  p.depth = std::max<int64_t>(input.step.macs / outputs, 1);
  if (p.depth < p.taps) p.taps = p.depth;
  return p;
}

// A register tile; that of most kernels where a plan names none.
struct Tile {
  int64_t rows = 14, panels = 2;  // of 16 columns
};

Tile TileOf(const KernelPlan& plan, const Product& p) {
  Tile tile;
  if (plan.tile_rows > 0) tile = {plan.tile_rows, std::max<int64_t>(plan.tile_columns / 16, 1)};
  tile.rows = std::max<int64_t>(std::min(tile.rows, p.rows), 1);
  return tile;
}

// The plan of a float32 product within another kernel.
KernelPlan PlanOf(const Product& p, Isa isa) {
  GemmSizes sizes;
  sizes.rows = p.rows, sizes.columns = p.columns;
  sizes.taps = 1, sizes.depth = p.depth;
  sizes.panel_stride = p.depth * kPanelF32;
  sizes.row_bytes = p.depth * static_cast<int64_t>(sizeof(float));
  return PlanGemm(sizes, GemmTypesF32(isa), Activation(), {isa, 1, {}}).Describe();
}

// lane: products that one multiply-add instruction sums per 32-bit accumulator.
void CountProduct(const Product& p, const Tile& tile, int64_t lane, Peak peak, const Rates& rates,
                  Terms& terms) {
  const int64_t panels = CeilDiv(p.columns, 16), chunks = CeilDiv(panels, tile.panels),
                tiles = CeilDiv(p.rows, tile.rows);
  const double steps = static_cast<double>(p.taps * CeilDiv(p.channels(), lane)),
               groups = static_cast<double>(p.groups);
  const double rows = static_cast<double>(p.rows);
  terms[kArithmetic] = groups * rows * static_cast<double>(16 * panels) * steps *
                       static_cast<double>(lane) * rates.mac_ns(peak);
  terms[kFeed] = groups * steps *
                 (rows * static_cast<double>(chunks) + static_cast<double>(tiles * panels)) *
                 rates.cycle_ns;
  terms[kRows] = groups * rows * static_cast<double>(p.taps) * rates.cycle_ns;
  terms[kOutputs] = groups * rows * static_cast<double>(panels) * rates.cycle_ns;
  terms[kTiles] = 10 * groups * static_cast<double>(tiles * chunks) * rates.cycle_ns;
  if (p.taps > 1)
    terms[kEdges] =
        terms[kRows] * std::min(1.0, static_cast<double>(tile.rows) / static_cast<double>(p.width));
}

int64_t LastKernelSize(const CostInput& input) {
  const std::vector<int64_t> w = input.args.inputs[1].shape.sizes();
  return w.size() > 2 && input.node.op.find("MatMul") == std::string::npos ? w.back() : 1;
}

bool Dilated(const CostInput& input) {
  const std::vector<int64_t> dilations = input.node.attrs.Ints("dilations", {});
  return !dilations.empty() && dilations.back() != 1;
}

// Integer kernels copy pixels whose channels are no whole quads, padded, and take a line of a
// window of few channels as one tap.
void MergeLines(const CostInput& input, const Rates& rates, Product& p, Terms& terms) {
  constexpr int64_t kThinChannels = 16;
  // Some taps reach an output of a transposed convolution, and p.channels() are those of all.
  const int64_t across = LastKernelSize(input),
                channels = input.node.op == "ConvTranspose"
                               ? input.args.inputs[1].shape[0].value / p.groups
                               : p.channels(),
                pixels = input.in_elements() / std::max<int64_t>(channels * p.groups, 1);
  const bool whole = channels % 4 == 0, merges = p.groups == 1 && across > 1 &&
                                                 p.channels() <= kThinChannels && !Dilated(input);
  if (!whole) {
    // One to three channels expand by a shuffle of vectors.
    terms[kCopies] =
        (channels < 4 ? 1 : 30) * static_cast<double>(pixels * p.groups) * rates.cycle_ns;
  } else if (merges) {
    terms[kCopies] = Vectors(input.in_elements()) * rates.cycle_ns;
  }
  if (!merges) return;
  p.depth = p.depth * RoundUp(channels, 4) / std::max<int64_t>(channels, 1);
  p.taps /= across;
}

// Pairs of bfloat16 cannot be read in place from an odd number of channels: a pixel's whole window
// is copied, line by line, tap by tap where they do not lie side by side, and each by itself at the
// image's sides. Cycles as measured for single windows.
void CopyWindows(const CostInput& input, const Rates& rates, Product& p, Terms& terms) {
  if (p.channels() % 2 == 0) return;
  const bool dilated = Dilated(input), beside = p.groups == 1 && !dilated;
  const int64_t across = LastKernelSize(input), lines = CeilDiv(p.taps, across);
  const int64_t line = 8 + (beside ? 0 : std::min(7 * across, 60 + 3 * across));
  const double sides = std::min(
      1.0, static_cast<double>((across - 1) * (dilated ? 2 : 1)) / static_cast<double>(p.width));
  const double window =
      static_cast<double>(15 + lines * line) + 10 * sides * static_cast<double>(p.taps);
  terms[kCopies] = static_cast<double>(p.groups * p.rows) * window * rates.cycle_ns;
  p.taps = 1;
}

// Sums that each output is put together from: one of each block, where data are rounded by blocks.
int64_t SumsOf(const CostInput& input) {
  const int64_t data_block = input.node.attrs.Int(kDataBlock, 0);
  if (data_block <= 0) return 1;
  const auto cut = BlockCutOf(WeightOf(input), data_block);
  return cut ? cut->blocks() : 1;
}

// All taps are columns of one product of the input's pixels, whose results are added up: most of a
// cycle each, as measured.
void CountTapsBeside(const CostInput& input, const Rates& rates, Product& p, Terms& terms) {
  constexpr double kAdditionCycles = 0.8;
  const std::vector<int64_t> w = input.args.inputs[1].shape.sizes();
  const bool transposed = input.node.op == "ConvTranspose";
  const int64_t outputs = p.rows;
  p.taps = 1;
  for (size_t i = 2; i < w.size(); ++i) p.taps *= w[i];
  p.depth = transposed ? w[0] : w[1];
  p.rows = input.Elements(input.args.inputs[0]) / std::max<int64_t>(p.depth, 1);
  terms[kCopies] = static_cast<double>((transposed ? p.rows : outputs) * p.taps * p.columns) *
                   kAdditionCycles * rates.cycle_ns;
  p.columns *= std::exchange(p.taps, 1);
}

template <int64_t kLane, Peak kPeak>
void Count(const CostInput& input, const Rates& rates, Terms& terms) {
  Product p = ProductOf(input);
  if (input.plan.method == kTapsBeside) {
    CountTapsBeside(input, rates, p, terms);
  } else if (kPeak == Peak::kInt8) {
    MergeLines(input, rates, p, terms);
  }
  if (kPeak == Peak::kBf16) CopyWindows(input, rates, p, terms);
  // Float32 kernels with a plan of their own only: others go about it as PlanGemm does.
  const bool known = kPeak == Peak::kInt8 || input.plan.tile_rows > 0;
  const KernelPlan plan = known ? input.plan : PlanOf(p, rates.limits.isa);
  CountProduct(p, TileOf(plan, p), kLane, kPeak, rates, terms);
  if (kPeak == Peak::kInt8) {  // of the blocks that are not 0
    terms[kArithmetic] *= ShareOfBlocks(plan.method);
    terms[kFeed] *= ShareOfBlocks(plan.method);
    terms[kOutputs] *= static_cast<double>(SumsOf(input));
  }
  if (input.has_curve()) terms[kCurve] = Vectors(input.out_elements()) * rates.cycle_ns;
  CountBytes(input, rates, terms);
}

// Of two computed operands: each product of a group is set up by itself.
void CountPair(const CostInput& input, const Rates& rates, Terms& terms) {
  Count<4, Peak::kInt8>(input, rates, terms);
  terms[kCall] += 1000 * static_cast<double>(ProductOf(input).groups) * rates.cycle_ns;
}

// The two products of attention, each of a head, and the weights between them. Scores and weights
// stay in the cache.
void CountAttentionPair(const CostInput& input, const Rates& rates, Terms& terms) {
  const std::vector<int64_t> q = input.args.inputs[0].shape.sizes(),
                             y = input.args.outputs[0].shape.sizes();
  Product p;
  p.rows = std::max<int64_t>(y[y.size() - 2], 1);
  p.columns = std::max<int64_t>(input.args.inputs[1].shape.sizes().back(), 1);
  p.depth = std::max<int64_t>(q.back(), 1);
  p.groups = std::max<int64_t>(input.out_elements() / std::max<int64_t>(p.rows * y.back(), 1), 1);
  CountProduct(p, TileOf(input.plan, p), 4, Peak::kInt8, rates, terms);
  Product of_values = p;
  of_values.columns = std::max<int64_t>(y.back(), 1), of_values.depth = p.columns;
  Terms more = {};
  CountProduct(of_values, TileOf(input.plan, of_values), 4, Peak::kInt8, rates, more);
  for (size_t i = 0; i < terms.size(); ++i) terms[i] += more[i];
  terms[kCall] += 2000 * static_cast<double>(p.groups) * rates.cycle_ns;
  terms[kCurve] = static_cast<double>(p.groups * p.rows) * Vectors(p.columns) * rates.cycle_ns;
  CountBytes(input, rates, terms);
}

// The input is widened as a whole.
void CountInFloat(const CostInput& input, const Rates& rates, Terms& terms) {
  Count<1, Peak::kFloat32>(input, rates, terms);
  terms[kCopies] += 2 * Vectors(input.in_elements()) * rates.cycle_ns;
}

// A product of all steps' inputs, then one of the state for each step, whose weights are read
// again, and the gates' functions.
void CountRecurrent(const CostInput& input, const Rates& rates, Terms& terms) {
  const KernelDef* kernel = FindKernel(input.step.decision.kernel);
  const Peak peak = kernel == nullptr ? Peak::kFloat32 : kernel->peak;
  const int64_t lane = peak == Peak::kInt8 ? 4 : 1;
  const std::vector<int64_t> x = input.args.inputs[0].shape.sizes(),
                             w = input.args.inputs[1].shape.sizes(),
                             r = input.args.inputs[2].shape.sizes();
  const bool batch_first = input.node.attrs.Int("layout", 0) == 1;
  const int64_t steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], directions = w[0],
                gates = w[1], hidden = r[2];
  const Product all{.rows = steps * batch, .columns = gates, .depth = w[2]},
      one{.rows = batch, .columns = gates, .depth = hidden};
  const auto tile = [&](const Product& p) {
    return TileOf(peak == Peak::kInt8 ? input.plan : PlanOf(p, rates.limits.isa), p);
  };
  Terms whole{}, step{};
  CountProduct(all, tile(all), lane, peak, rates, whole);
  CountProduct(one, tile(one), lane, peak, rates, step);
  for (int t = 0; t < kTermCount; ++t)
    terms[t] += static_cast<double>(directions) * (whole[t] + static_cast<double>(steps) * step[t]);
  terms[kCall] += 1000 * static_cast<double>(directions * steps) * rates.cycle_ns;
  terms[kCurve] =
      static_cast<double>(directions * steps * batch) * Vectors(gates + hidden) * rates.cycle_ns;
  CountBytes(input, rates, terms);
  const int bits = peak == Peak::kInt8 ? DTypeBits(input.args.inputs[2].dtype) : 32;
  const double state = static_cast<double>(gates * hidden) * bits / 8;
  if (steps > 1)
    terms[kWeights] +=
        rates.stream_ns(static_cast<double>(directions * (steps - 1)) * state, state);
}

// F(m x m, 3 x 3): (m + 2)^2 products of a matrix of tiles, transforms of what goes in and comes
// out.
void CountWinograd(const CostInput& input, const Rates& rates, Terms& terms) {
  const int64_t m = input.plan.method.ends_with("2x2") ? 2 : 4, positions = (m + 2) * (m + 2);
  const std::vector<int64_t> y = input.args.outputs[0].shape.sizes(),
                             w = input.args.inputs[1].shape.sizes();
  Product p;
  p.groups = positions;
  p.rows = y[0] * CeilDiv(y[1], m) * CeilDiv(y[2], m);
  p.columns = w[0];
  p.depth = w[1];
  CountProduct(p, TileOf(input.plan, p), 1, Peak::kFloat32, rates, terms);
  terms[kRows] = static_cast<double>(positions * p.rows) * Vectors(RoundUp(p.depth, 16)) *
                 rates.cycle_ns;  // into V
  terms[kOutputs] =
      static_cast<double>(positions * p.rows) * Vectors(RoundUp(p.columns, 16)) * rates.cycle_ns;
  if (input.has_curve()) terms[kCurve] = Vectors(input.out_elements()) * rates.cycle_ns;
  CountBytes(input, rates, terms);
  terms[kWeights] *= static_cast<double>(positions) / 9;
}

}  // namespace

extern const CostFamily kFamilyWinograd, kFamilyBf16InFloat, kFamilyDirectInt8, kFamilyProductInt8,
    kFamilyProductDynamic, kFamilyProductPair, kFamilyAttentionPair, kFamilyProductWeights8,
    kFamilyProductBf16, kFamilyProductFloat, kFamilyTransposedInt8, kFamilyTransposedBf16,
    kFamilyTransposedFloat, kFamilyRecurrent;
const CostFamily kFamilyWinograd = {
    .name = "winograd_f32",
    .kernels = "conv_f32 conv_bf16",
    .method = "*winograd*",
    .count = CountWinograd,
};
const CostFamily kFamilyBf16InFloat = {
    .name = "product_f32",
    .kernels = "conv_bf16",
    .method = "*in float32",
    .count = CountInFloat,
};
const CostFamily kFamilyDirectInt8 = {
    .name = "direct_int8",
    .kernels = "conv_int8 conv_integer dynamic_conv*",
    .method = "*direct",
    .count = Count<4, Peak::kInt8>,
};
const CostFamily kFamilyProductInt8 = {
    .name = "product_int8",
    .kernels = "conv_int8 matmul_int8 matmul_blocks expert_matmul_blocks",
    .count = Count<4, Peak::kInt8>,
};
const CostFamily kFamilyProductDynamic = {
    .name = "product_dynamic",
    .kernels = "conv_integer matmul_integer dynamic_conv* dynamic_matmul",
    .count = Count<4, Peak::kInt8>,
};
const CostFamily kFamilyProductPair = {
    .name = "product_pair",
    .kernels = "matmul_pair_int8",
    .count = CountPair,
};
const CostFamily kFamilyAttentionPair = {
    .name = "attention_pair",
    .kernels = "attention_pair_int8",
    .count = CountAttentionPair,
};
const CostFamily kFamilyProductWeights8 = {
    .name = "product_w8",
    .kernels = "matmul_w8 expert_matmul_w8",
    .count = Count<1, Peak::kFloat32>,
};
const CostFamily kFamilyProductBf16 = {
    .name = "product_bf16",
    .kernels = "conv_bf16 matmul_bf16 expert_matmul_bf16",
    .count = Count<2, Peak::kBf16>,
};
const CostFamily kFamilyProductFloat = {
    .name = "product_f32",
    .kernels = "conv_f32 matmul_f32 expert_matmul_f32",
    .count = Count<1, Peak::kFloat32>,
};
const CostFamily kFamilyTransposedInt8 = {
    .name = "transposed_int8",
    .kernels = "conv_transpose_int8",
    .count = Count<4, Peak::kInt8>,
};
const CostFamily kFamilyTransposedBf16 = {
    .name = "transposed_bf16",
    .kernels = "conv_transpose_bf16",
    .count = Count<2, Peak::kBf16>,
};
const CostFamily kFamilyTransposedFloat = {
    .name = "transposed_f32",
    .kernels = "conv_transpose_f32",
    .count = Count<1, Peak::kFloat32>,
};
const CostFamily kFamilyRecurrent = {
    .name = "recurrent",
    .kernels = "lstm_* gru_* rnn_*",
    .count = CountRecurrent,
};

}  // namespace evoq
