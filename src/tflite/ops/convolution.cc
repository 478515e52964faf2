// CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV. Filters of TensorFlow Lite are [M, h, w, C]; of
// the depthwise one [1, h, w, M].
#include "base/math.h"
#include "tflite/translator.h"
#include "tflite/window.h"

namespace evoq::tflite {
namespace {

const std::vector<int64_t> kFilter = {0, 3, 1, 2}, kDepthwiseFilter = {3, 0, 1, 2};

// The product of input `x` and the filter in input 1, with the bias in `bias` and an activation.
Status SetProduct(Translator& to, const char* op, size_t x, const std::vector<int64_t>& perm,
                  size_t bias, int activation, Attrs attrs) {
  EVOQ_TRY(to.CheckRank(x, 4));
  EVOQ_TRY(to.AddActivation(activation, attrs));
  EVOQ_ASSIGN(const ValueId w, to.Weight(1, perm));
  EVOQ_ASSIGN(const ValueId b, to.Bias(bias, x, 1));
  std::vector<ValueId> inputs = {to.Planar(x), w};
  if (b.valid()) inputs.push_back(b);
  return to.SetPlanar(0, to.Apply(op, std::move(inputs), std::move(attrs)));
}

Status Conv2D(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::Conv2DOptions>());
  EVOQ_TRY(to.CheckRank(0, 4));
  EVOQ_TRY(to.CheckRank(1, 4));
  Attrs attrs;
  EVOQ_TRY(AddWindow(o->padding(), o->stride_h(), o->stride_w(), attrs));
  EVOQ_TRY(AddDilations(o->dilation_h(), o->dilation_w(), attrs));
  const int64_t channels = to.input(0).sizes[3], filter = to.input(1).sizes[3];
  if (filter < 1 || (channels >= 0 && channels % filter != 0))
    return InvalidInput("{} input channels, the filter has {}", channels, filter);
  if (channels > filter) attrs.Set("group", channels / filter);
  return SetProduct(to, "Conv", 0, kFilter, 2, o->activation(), std::move(attrs));
}

Status DepthwiseConv2D(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::DepthwiseConv2DOptions>());
  EVOQ_TRY(to.CheckRank(0, 4));
  EVOQ_TRY(to.CheckRank(1, 4));
  Attrs attrs;
  EVOQ_TRY(AddWindow(o->padding(), o->stride_h(), o->stride_w(), attrs));
  EVOQ_TRY(AddDilations(o->dilation_h(), o->dilation_w(), attrs));
  const int64_t channels = to.input(0).sizes[3];
  const std::vector<int64_t>& filter = to.input(1).sizes;
  if (channels < 1) return Unsupported("an input of an open number of channels");
  if (filter[0] != 1 || filter[3] % channels != 0)
    return InvalidInput("the filter is {}, expected [1, h, w, a multiple of {}]",
                        Shape(filter).ToString(), channels);
  attrs.Set("group", channels);
  return SetProduct(to, "Conv", 0, kDepthwiseFilter, 2, o->activation(), std::move(attrs));
}

// The file gives the output's shape; what the dialect has are pads, and sizes to add at the end.
//   total = (in - 1) * stride + k - out;  pads total / 2 and the rest, sizes to add for less than 0
Status TransposeConv(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::TransposeConvOptions>());
  EVOQ_ASSIGN(const std::vector<int64_t> out, to.Ints(0));
  EVOQ_TRY(to.CheckRank(1, 4));
  EVOQ_TRY(to.CheckRank(2, 4));
  if (out.size() != 4) return InvalidInput("an output shape of {} sizes, expected 4", out.size());
  Attrs attrs;
  EVOQ_TRY(AddWindow(kPaddingValid, o->stride_h(), o->stride_w(), attrs));
  const int64_t strides[] = {o->stride_h(), o->stride_w()};
  std::vector<int64_t> pads(4), more(2);
  for (size_t d = 0; d < 2; ++d) {
    const int64_t in = to.input(2).sizes[d + 1], kernel = to.input(1).sizes[d + 1];
    if (in < 1) return Unsupported("an input of open sizes");
    if (out[d + 1] < 1 || out[d + 1] > INT32_MAX)
      return InvalidInput("an output of size {} on axis {}", out[d + 1], d + 1);
    const int64_t total = (in - 1) * strides[d] + kernel - out[d + 1];
    if (total < 0) {
      more[d] = -total;
    } else {
      pads[d] = total / 2;
      pads[d + 2] = total - total / 2;
    }
  }
  attrs.Set("pads", pads);
  if (more[0] > 0 || more[1] > 0) attrs.Set("output_padding", more);
  return SetProduct(to, "ConvTranspose", 2, kDepthwiseFilter, 3, o->activation(), std::move(attrs));
}

}  // namespace

extern const OpRow kConv2D = {
    .name = "CONV_2D", .number = 3, .least_inputs = 2, .most_inputs = 3, .translate = Conv2D};
extern const OpRow kDepthwiseConv2D = {.name = "DEPTHWISE_CONV_2D",
                                       .number = 4,
                                       .least_inputs = 2,
                                       .most_inputs = 3,
                                       .translate = DepthwiseConv2D};
extern const OpRow kTransposeConv = {.name = "TRANSPOSE_CONV",
                                     .number = 67,
                                     .least_inputs = 3,
                                     .most_inputs = 4,
                                     .translate = TransposeConv};

}  // namespace evoq::tflite
