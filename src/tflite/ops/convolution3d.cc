// CONV_3D and CONV_3D_TRANSPOSE: values are N, D, H, W, C, filters D, H, W, and then channels in
// and out, or of the transposed one out and in.
#include "tflite/translator.h"
#include "tflite/window.h"

namespace evoq::tflite {
namespace {

const std::vector<int64_t> kToPlanar = {0, 4, 1, 2, 3}, kToPlain = {0, 2, 3, 4, 1},
                           kFilter = {4, 3, 0, 1, 2};

Result<Attrs> WindowOf(const fb::Conv3DOptions& o) {
  Attrs attrs;
  EVOQ_TRY(AddWindow(o.padding(), o.stride_h(), o.stride_w(), attrs));
  EVOQ_TRY(AddDilations(o.dilation_h(), o.dilation_w(), attrs));
  if (o.stride_d() < 1 || o.dilation_d() < 1)
    return InvalidInput("stride {} and dilation {} of the depth, expected at least 1", o.stride_d(),
                        o.dilation_d());
  attrs.Set("strides", std::vector<int64_t>{o.stride_d(), o.stride_h(), o.stride_w()});
  attrs.Set("dilations", std::vector<int64_t>{o.dilation_d(), o.dilation_h(), o.dilation_w()});
  return attrs;
}

Status SetProduct(Translator& to, const char* op, size_t x, Attrs attrs, int activation) {
  EVOQ_TRY(to.CheckRank(x, 5));
  EVOQ_TRY(to.AddActivation(activation, attrs));
  EVOQ_ASSIGN(const ValueId w, to.Weight(1, kFilter));
  EVOQ_ASSIGN(const ValueId b, to.Bias(x == 0 ? 2 : 3, x, 1));
  std::vector<ValueId> inputs = {to.Transposed(to.Real(x), kToPlanar), w};
  if (b.valid()) inputs.push_back(b);
  return to.Set(0, to.Transposed(to.Apply(op, std::move(inputs), std::move(attrs)), kToPlain));
}

Status Conv3D(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::Conv3DOptions>());
  EVOQ_TRY(to.CheckRank(0, 5));
  EVOQ_TRY(to.CheckRank(1, 5));
  EVOQ_ASSIGN(Attrs attrs, WindowOf(*o));
  const int64_t channels = to.input(0).sizes[4], filter = to.input(1).sizes[3];
  if (filter < 1 || (channels >= 0 && channels % filter != 0))
    return InvalidInput("{} input channels, the filter has {}", channels, filter);
  if (channels > filter) attrs.Set("group", channels / filter);
  return SetProduct(to, "Conv", 0, std::move(attrs), o->activation());
}

// Pads and sizes to add are what the output's shape leaves, as of TRANSPOSE_CONV.
Status Conv3DTranspose(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::Conv3DOptions>());
  EVOQ_TRY(to.CheckRank(1, 5));
  EVOQ_TRY(to.CheckRank(2, 5));
  EVOQ_ASSIGN(Attrs attrs, WindowOf(*o));
  attrs.Erase("auto_pad");
  EVOQ_ASSIGN(const std::vector<int64_t> out, to.Ints(0));
  if (out.size() != 5) return InvalidInput("an output shape of {} sizes, expected 5", out.size());
  const int64_t strides[] = {o->stride_d(), o->stride_h(), o->stride_w()},
                steps[] = {o->dilation_d(), o->dilation_h(), o->dilation_w()};
  std::vector<int64_t> pads(6), more(3);
  for (size_t d = 0; d < 3; ++d) {
    const int64_t in = to.input(2).sizes[d + 1], kernel = to.input(1).sizes[d];
    if (in < 1) return Unsupported("an input of open sizes");
    if (kernel < 1 || out[d + 1] < 1 || out[d + 1] > INT32_MAX)
      return InvalidInput("an output of size {} on axis {}", out[d + 1], d + 1);
    const int64_t total = (in - 1) * strides[d] + (kernel - 1) * steps[d] + 1 - out[d + 1];
    more[d] = std::max<int64_t>(-total, 0);
    pads[d] = std::max<int64_t>(total, 0) / 2;
    pads[d + 3] = std::max<int64_t>(total, 0) - pads[d];
  }
  attrs.Set("pads", pads);
  attrs.Set("output_padding", more);
  return SetProduct(to, "ConvTranspose", 2, std::move(attrs), o->activation());
}

}  // namespace

extern const OpRow kConv3D = {
    .name = "CONV_3D", .number = 132, .least_inputs = 2, .most_inputs = 3, .translate = Conv3D};
extern const OpRow kConv3DTranspose = {.name = "CONV_3D_TRANSPOSE",
                                       .number = 141,
                                       .least_inputs = 3,
                                       .most_inputs = 4,
                                       .translate = Conv3DTranspose};

}  // namespace evoq::tflite
