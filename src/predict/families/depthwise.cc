// Depthwise convolutions: each output is a sum over taps, vectors run over channels.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "kernels/dwconv/dwconv_call.h"
#include "predict/families/count.h"

namespace evoq {
namespace {

// The size of the square kernel that the kernels have code for and that takes such windows, 0 where
// they go tap by tap.
int64_t OwnKernel(const CostInput& input, bool quads) {
  const auto shape = DwShapeOf(input.args.call);
  if (!shape) return 0;
  const WindowDim &h = shape->h, &w = shape->w;
  if (!quads && h.kernel != w.kernel) return 0;
  const int64_t kernel = RingKernel(*shape);
  return quads || kernel == w.kernel ? kernel : 0;
}

// Kernels that have no code of their own: seven outputs of a line at a time, by a table of the
// pixels under them. Cycles, as measured: of a tile a pixel's place in the table, of a tile's 16
// channels what begins and ends, and of each tap seven multiply-adds; bytes are made floats first.
double LineCycles(const DwShape& shape, bool bytes) {
  constexpr double kOutputs = 7;
  const WindowDim &h = shape.h, &w = shape.w;
  const double step = static_cast<double>(w.stride == 1 ? 1 : w.stride),
               reach = static_cast<double>((w.kernel - 1) * (w.stride == 1 ? 1 : w.dilation)),
               places = static_cast<double>(h.kernel) * ((kOutputs - 1) * step + reach + 1),
               taps = static_cast<double>(shape.taps());
  const double tiles =
      static_cast<double>(shape.batch * h.out) * std::ceil(static_cast<double>(w.out) / kOutputs);
  const double block = bytes ? 90 + 9 * taps : 30 + kOutputs * taps;
  return tiles * (5 * places + static_cast<double>(CeilDiv(shape.channels, 16)) * block);
}

// lanes: channels of one vector; quads: an integer instruction sums four taps of a column.
template <int64_t kLanes, bool kQuads>
void Count(const CostInput& input, const Rates& rates, Terms& terms) {
  const std::vector<int64_t> y = input.args.outputs[0].shape.sizes(),
                             w = input.args.inputs[1].shape.sizes();
  const int64_t channels = y.back(), width = y[y.size() - 2], height = w.size() > 3 ? w[2] : 1,
                across = w.back();
  const int64_t pixels = input.out_elements() / std::max<int64_t>(channels, 1);
  const int64_t own = OwnKernel(input, kQuads);
  const double blocks = static_cast<double>(CeilDiv(channels, kLanes));
  if (const auto shape = DwShapeOf(input.args.call); own == 0 && shape) {
    terms[kTiles] = LineCycles(*shape, kQuads) * rates.cycle_ns;
    CountOutputs(input, rates, terms);
    return CountBytes(input, rates, terms);
  }
  const int64_t taps = kQuads ? own * CeilDiv(own, 4) : across * height;
  terms[kArithmetic] = static_cast<double>(pixels * taps) * blocks *
                       static_cast<double>(kLanes / 16) * rates.cycle_ns;
  terms[kFeed] = static_cast<double>(pixels) * blocks * rates.cycle_ns;
  if (channels % 16 != 0)
    terms[kCopies] =
        10 * static_cast<double>(pixels) * rates.cycle_ns;  // one by one, or under a mask
  terms[kRows] =
      10 * static_cast<double>(pixels / std::max<int64_t>(width, 1)) * blocks * rates.cycle_ns;
  CountOutputs(input, rates, terms);
  CountBytes(input, rates, terms);
}

}  // namespace

extern const CostFamily kFamilyDepthwiseInt8, kFamilyDepthwiseDynamic, kFamilyDepthwiseBf16,
    kFamilyDepthwiseFloat;
const CostFamily kFamilyDepthwiseInt8 = {
    .name = "depthwise_int8",
    .kernels = "dwconv_int8",
    .count = Count<64, true>,
};
const CostFamily kFamilyDepthwiseDynamic = {
    .name = "depthwise_dynamic",
    .kernels = "dynamic_dwconv",
    .count = Count<64, true>,
};
const CostFamily kFamilyDepthwiseBf16 = {
    .name = "depthwise_bf16",
    .kernels = "dwconv_bf16",
    .count = Count<16, false>,
};
const CostFamily kFamilyDepthwiseFloat = {
    .name = "depthwise_f32",
    .kernels = "dwconv_f32",
    .count = Count<16, false>,
};

}  // namespace evoq
