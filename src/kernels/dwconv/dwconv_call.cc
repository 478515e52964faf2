#include "kernels/dwconv/dwconv_call.h"

#include <algorithm>

#include "kernels/layout.h"
#include "kernels/variants.h"

namespace evoq {

namespace {

std::optional<Reason> RejectOtherShapes(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const Shape& x = call.inputs[0].shape;
  const Shape& w = call.inputs[1].shape;
  if (call.attrs.Int("channels_last") != 1) return Reject("layout", "needs channels_last=1");
  if (x.rank() != 3 && x.rank() != 4)
    return Reject("shape", "input 0 has rank {}, expected 3 or 4", x.rank());
  const int64_t channels = x[x.rank() - 1].value, group = call.attrs.Int("group", 1);
  if (w.rank() != x.rank() || w[0].value != channels || group != channels || w[1].value != 1) {
    return Reject(
        "shape", "group {} with {} input channels and weights {}, expected a depthwise convolution",
        group, channels, w.ToString());
  }
  const Shape& y = call.outputs[0].shape;
  if (y.rank() != x.rank() || y[0] != x[0] || y[y.rank() - 1].value != channels) {
    return Reject("shape", "output {} for an input {}", y.ToString(), x.ToString());
  }
  if (call.has_input(2) && ElementsOf(call.inputs[2]) != channels) {
    return Reject("shape", "bias {} for {} channels", call.inputs[2].shape.ToString(), channels);
  }
  if (call.constant(1) == nullptr)
    return Reject("not-constant", "input 1 (weights) is computed at run time");
  if (call.has_input(2) && call.constant(2) == nullptr)
    return Reject("not-constant", "input 2 (bias) is computed at run time");
  if (call.has_input(3) && call.inputs[3].shape != call.outputs[0].shape) {
    return Reject("shape", "the residual is {}, the output {}", call.inputs[3].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  if (auto shape = DwShapeOf(call); !shape)
    return Reject("attribute", "{}", shape.error().message());
  return std::nullopt;
}

}  // namespace

std::optional<Reason> RejectUnlessDepthwise(const KernelCall& call) {
  if (auto rejection = RejectOtherShapes(call)) return rejection;
  const auto activation = ActivationFromAttrs(call.attrs);
  if (!activation) return Reject("attribute", "{}", activation.error().message());
  return std::nullopt;
}

std::optional<Reason> RejectUnlessInt8Depthwise(const KernelCall& call) {
  if (auto rejection = RejectOtherShapes(call)) return rejection;
  const int64_t taps = DwShapeOf(call)->taps();
  if (DwShapeOf(call)->channels == 1)
    return Reject("shape", "one channel: most lanes would be idle");
  if (taps > 32768) return Reject("shape", "a kernel of {} taps could overflow int32", taps);
  return std::nullopt;
}

int64_t RingKernel(const DwShape& shape) {
  const WindowDim &h = shape.h, &w = shape.w;
  if (w.stride > 2 || (w.stride == 2 && w.dilation > 1 && w.kernel > 1)) return 0;
  for (int64_t size : {3, 5, 7}) {
    if (HasDepthwiseVariant(size) && std::max(h.kernel, w.kernel) <= size) return size;
  }
  return 0;
}

Result<DwShape> DwShapeOf(const KernelCall& call) {
  const auto weights = call.inputs[1].shape.sizes();
  std::vector<int64_t> kernel(weights.begin() + 2, weights.end());
  EVOQ_ASSIGN(std::vector<WindowDim> window,
              WindowFromAttrs(call.attrs, kernel, SpatialSizes(call.inputs[0], true),
                              SpatialSizes(call.outputs[0], true)));
  DwShape shape;
  shape.batch = call.inputs[0].shape[0].value;
  shape.channels = weights[0];
  if (window.size() == 2) shape.h = window[0];
  shape.w = window.back();
  return shape;
}

Status CheckTaps(const KernelCall& call) {
  const Tensor& weights = *call.constant(1);
  if (weights.layout() == "taps-c") return {};
  return InvalidInput("weights have layout '{}', expected taps-c", weights.layout());
}

Result<Tensor> PackDepthwise(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  const Tensor& weights = *call.constant(1);
  if (weights.layout() == "taps-c") return weights;
  EVOQ_ASSIGN(const Tensor plain, ToPlain(weights));
  return FindLayout("taps-c")->pack(plain);
}

AlignedBuffer ZeroFloats(size_t count) {
  AlignedBuffer buffer(count * sizeof(float));
  std::fill_n(reinterpret_cast<float*>(buffer.data()), count, 0.0f);
  return buffer;
}

}  // namespace evoq
