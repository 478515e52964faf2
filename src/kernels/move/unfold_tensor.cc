// UnfoldTensor: windows along an axis, a strided view in which they overlap.
#include "kernels/move/move_call.h"
#include "kernels/move/strided.h"

namespace evoq {
namespace {

Result<StridedView> Windows(const KernelCall& call) {
  const Shape& x = call.inputs[0].shape;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("dim", -1), x.rank()));
  const int64_t size = call.attrs.Int("size", 0), step = call.attrs.Int("step", 1);
  if (size < 1 || step < 1 || size > x[axis].value)
    return InvalidInput("windows of {} every {} of {}", size, step, x.ToString());
  StridedView view{x.sizes(), RowMajorStrides(x.sizes()), 0};
  view.sizes.push_back(size);
  view.strides.push_back(view.strides[axis]);
  view.sizes[axis] = (x[axis].value - size) / step + 1;
  view.strides[axis] *= std::min(step, x[axis].value);  // beyond it there is one window
  return view;
}

std::optional<Reason> RejectUnfold(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto reason = RejectUnlessSame(call, 0)) return reason;
  const auto view = Windows(call);
  if (!view) return Reject("attribute", "{}", view.error().message());
  if (view->sizes != call.outputs[0].shape.sizes())
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  return std::nullopt;
}

Result<BoundKernel> BindUnfold(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(StridedView view, Windows(call));
  return BindStrided(std::move(view), ElementBytes(call.inputs[0].dtype), options);
}

}  // namespace

extern const KernelDef kUnfoldTensorKernel = {.name = "unfold_tensor",
                                              .op = "UnfoldTensor",
                                              .precision = Precision::kAny,
                                              .peak = Peak::kMemory,
                                              .reject = RejectUnfold,
                                              .bind = BindUnfold};

}  // namespace evoq
