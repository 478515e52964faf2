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

// (in - 1) * stride + k - out of spatial axis d; nothing where `out` does not follow.
std::optional<int64_t> Excess(const Translator& to, const Sizes& out, size_t d, int64_t stride) {
  const int64_t kernel = to.input(1).sizes[d + 1];
  const auto full =
      Sum(Product(to.SizeOf(2, d + 1), Size{.more = stride}), Size{.more = kernel - stride});
  const auto excess = Difference(full, out[d + 1]);
  return excess ? excess->number() : std::nullopt;
}

// What Excess is for the output that TensorFlow makes where nobody asks for another: in * stride
// with SAME, in * stride + max(k - stride, 0) with VALID.
int64_t UsualExcess(int padding, int64_t kernel, int64_t stride) {
  return padding == kPaddingSame ? kernel - stride : std::min<int64_t>(kernel - stride, 0);
}

// Of the output, as far as they follow.
Result<Sizes> OutputSizes(const Translator& to) {
  Sizes out = to.SizesIn(0);
  if (to.is_constant(0)) {
    EVOQ_ASSIGN(const std::vector<int64_t> sizes, to.Ints(0));
    if (sizes.size() != 4)
      return InvalidInput("an output shape of {} sizes, expected 4", sizes.size());
  }
  out.resize(4);
  for (const size_t axis : {1, 2}) {
    const auto size = out[axis] ? out[axis]->number() : std::nullopt;
    if (size && (*size < 1 || *size > INT32_MAX))
      return InvalidInput("an output of size {} on axis {}", *size, axis);
    const auto in = to.SizeOf(2, axis).number();
    if (in ? *in < 1 : size.has_value()) return Unsupported("an input of open sizes");
  }
  return out;
}

// The file gives the output's shape; what the dialect has are pads, and sizes to add at the end.
//   total = (in - 1) * stride + k - out;  pads total / 2 and the rest, sizes to add for less than 0
Status TransposeConv(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::TransposeConvOptions>());
  EVOQ_TRY(to.CheckRank(1, 4));
  EVOQ_TRY(to.CheckRank(2, 4));
  EVOQ_ASSIGN(const Sizes out, OutputSizes(to));
  Attrs attrs;
  EVOQ_TRY(AddWindow(o->padding(), o->stride_h(), o->stride_w(), attrs));
  attrs.Erase("auto_pad");
  const int64_t strides[] = {o->stride_h(), o->stride_w()};
  std::vector<int64_t> pads(4), more(2);
  bool usual = false;
  for (size_t d = 0; d < 2; ++d) {
    const auto excess = Excess(to, out, d, strides[d]);
    usual |= !excess;
    const int64_t total =
        excess ? *excess : UsualExcess(o->padding(), to.input(1).sizes[d + 1], strides[d]);
    if (total < 0) {
      more[d] = -total;
    } else {
      pads[d] = total / 2;
      pads[d + 2] = total - total / 2;
    }
  }
  if (usual) to.Note("the output's size is that of its padding and strides, the file computes it");
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
