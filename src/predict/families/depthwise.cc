// Depthwise convolutions: each output is a sum over taps, vectors run over channels.
#include "predict/families/count.h"

namespace evoq {
namespace {

constexpr int64_t kManyTaps = 64;  // more than the kernels of images have: tap by tap

// lanes: channels of one vector; quads: an integer instruction sums four taps of a column.
template <int64_t kLanes, bool kQuads>
void Count(const CostInput& input, const Rates& rates, Terms& terms) {
  const std::vector<int64_t> y = input.args.outputs[0].shape.sizes(),
                             w = input.args.inputs[1].shape.sizes();
  const int64_t channels = y.back(), width = y[y.size() - 2], height = w.size() > 3 ? w[2] : 1,
                across = w.back();
  const int64_t pixels = input.out_elements() / std::max<int64_t>(channels, 1);
  const int64_t taps = kQuads ? across * CeilDiv(height, 4) : across * height;
  const double blocks = static_cast<double>(CeilDiv(channels, kLanes));
  terms[kArithmetic] = static_cast<double>(pixels * taps) * blocks *
                       static_cast<double>(kLanes / 16) * rates.cycle_ns;
  terms[kFeed] = static_cast<double>(pixels) * blocks * rates.cycle_ns;
  if (taps > kManyTaps)
    terms[kTiles] = static_cast<double>(pixels * across * height) * rates.cycle_ns;
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
