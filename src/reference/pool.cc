// MaxPool, AveragePool, LpPool and their global forms.
#include "ops/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/brief.h"
#include "base/budget_scope.h"
#include "kernels/requant.h"
#include "kernels/window.h"
#include "ops/linear.h"
#include "ops/window.h"
#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/linear.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// For one output position: the inputs inside, as offsets in the plane in spatial index order, and
// the number of taps inside the padded input.
struct Taps {
  std::vector<int64_t> offsets;
  int64_t padded = 1;
};

// Planes [batch * channels] of in_size values, each giving as many outputs; the work is that of the
// taps inside.
class PoolPlan {
 public:
  // One window that covers the plane.
  explicit PoolPlan(const std::vector<int64_t>& sizes)
      : planes(sizes[0] * sizes[1]), strides_(sizes.begin() + 2, sizes.end()) {
    for (int64_t size : strides_) {
      window_.push_back({.in = size, .kernel = size});
      in_size *= size;
    }
    strides_ = RowMajorStrides(strides_);
  }
  PoolPlan(const Window& w, const std::vector<int64_t>& sizes) : PoolPlan(sizes) {
    outputs = 1;
    for (size_t d = 0; d < window_.size(); ++d) {
      window_[d] = {sizes[d + 2],   w.output[d].value, w.kernel[d], w.strides[d],
                    w.dilations[d], w.pad_begin[d],    w.pad_end[d]};
      outputs *= w.output[d].value;
    }
  }

  // Draws what a run costs.
  Status Spend() const {
    int64_t taps = 1;  // at most kMaxPoolTaps, or the plane
    for (const WindowDim& w : window_)
      taps *= std::clamp<int64_t>(w.kernel, 1, std::max<int64_t>(w.in, 1));
    return SpendWork({planes, outputs, taps + 16}, "the windows");
  }

  void SetTaps(int64_t output, Taps& taps) const {
    taps.padded = 1;
    std::vector<int64_t> at(window_.size());
    for (size_t d = window_.size(); d-- > 0; output /= window_[d].out) {
      at[d] = output % window_[d].out;
      taps.padded *= window_[d].PaddedTaps(at[d]);
    }
    taps.offsets.clear();
    AddOffsets(at, 0, 0, taps.offsets);
  }

  int64_t planes = 0, in_size = 1, outputs = 1;

 private:
  void AddOffsets(const std::vector<int64_t>& at, size_t d, int64_t offset,
                  std::vector<int64_t>& offsets) const {
    if (d == window_.size()) return offsets.push_back(offset);
    const WindowDim& w = window_[d];
    for (int64_t k = w.TapBegin(at[d]); k < w.TapEnd(at[d]); ++k)
      AddOffsets(at, d + 1, offset + (at[d] * w.stride - w.pad + k * w.dilation) * strides_[d],
                 offsets);
  }

  std::vector<WindowDim> window_;  // by spatial axis
  std::vector<int64_t> strides_;
};

// y[i] = pool(the plane's values, taps, i), i = plane * outputs + output.
template <typename In, typename Out, typename Pool>
void RunPlan(const PoolPlan& plan, const In* x, Out* y, const Pool& pool) {
  Taps taps;
  for (int64_t o = 0; o < plan.outputs && plan.planes > 0; ++o) {
    plan.SetTaps(o, taps);
    for (int64_t p = 0; p < plan.planes; ++p) {
      const int64_t i = p * plan.outputs + o;
      y[i] = pool(x + p * plan.in_size, taps, i);
    }
  }
}

// ---- MaxPool: the first NaN, or else the first of the largest, which Indices names by its offset
// in the whole input (with storage_order 1, the offset if every plane were stored column-major).

// Where an offset of a row-major plane stands when its spatial axes are stored in the opposite
// order.
int64_t ColumnMajor(int64_t offset, const std::vector<int64_t>& sizes) {
  int64_t result = 0, stride = 1;
  for (int64_t s : std::span(sizes).subspan(2)) stride *= s;
  for (size_t d = sizes.size(); d-- > 2;) {
    stride /= sizes[d];
    result += offset % sizes[d] * stride;
    offset /= sizes[d];
  }
  return result;
}

EvalResult EvaluateMaxPool(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Window w, PoolWindowOf(args.node, x.shape()));
  const std::vector<int64_t> sizes = x.sizes();
  const PoolPlan plan(w, sizes);
  EVOQ_TRY(plan.Spend());
  const bool columns = args.node.attrs.Int("storage_order") != 0;
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), args.output_types[0].shape)));
    EVOQ_ASSIGN(Tensor indices, AllocateOutput(TensorType(DType::kInt64, y.shape())));
    int64_t* const index = indices.mutable_data<int64_t>();
    using Limits = std::numeric_limits<T>;
    const T lowest = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
    RunPlan(plan, x.data<T>(), y.mutable_data<T>(),
            [&](const T* plane, const Taps& taps, int64_t i) {
              T best = lowest;
              int64_t at = taps.offsets.empty() ? 0 : taps.offsets[0];
              for (int64_t offset : taps.offsets) {
                if (plane[offset] > best || IsNan(plane[offset])) best = plane[at = offset];
                if (IsNan(best)) break;
              }
              index[i] = plane - x.data<T>() + (columns ? ColumnMajor(at, sizes) : at);
              return best;
            });
    return std::vector<Tensor>{std::move(y), std::move(indices)};
  });
}

EvalResult EvaluateGlobalMaxPool(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const PoolPlan plan(x.sizes());
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
    RunPlan(plan, x.data<T>(), y.mutable_data<T>(), [&](const T* plane, const Taps&, int64_t) {
      T best = -std::numeric_limits<T>::infinity();
      for (int64_t i = 0; i < plan.in_size; ++i) best = MaxFn()(plane[i], best);
      return best + 0;  // a zero is positive
    });
    return One(std::move(y));
  });
}

// ---- averages

Result<PoolPlan> AveragePlan(const Node& node, const Shape& x, bool global) {
  if (global) return PoolPlan(x.sizes());
  EVOQ_ASSIGN(const Window w, PoolWindowOf(node, x));
  return PoolPlan(w, x.sizes());
}

int64_t CountOf(const Taps& taps, const Node& node) {
  const int64_t count = node.attrs.Int("count_include_pad") != 0
                            ? taps.padded
                            : static_cast<int64_t>(taps.offsets.size());
  return std::max<int64_t>(count, 1);
}

// y = the sum in spatial index order, divided by count, both of x's type.
template <bool kGlobal>
EvalResult EvaluateAverage(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const PoolPlan plan, AveragePlan(args.node, x.shape(), kGlobal));
  EVOQ_TRY(plan.Spend());
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
    RunPlan(plan, x.data<T>(), y.mutable_data<T>(), [&](const T* plane, const Taps& taps, int64_t) {
      T sum = 0;
      for (int64_t offset : taps.offsets) sum += plane[offset];
      return sum / static_cast<T>(CountOf(taps, args.node));
    });
    return One(std::move(y));
  });
}

// kernels/requant.h; needs x and y quantized per tensor to at most 16 bits.
template <bool kGlobal>
EvalResult EvaluateAverageQuantized(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const TensorType& y = args.output_types[0];
  for (const TensorType* type : {&x.type(), &y}) {
    if (!type->quantized() || !type->quant->per_tensor() || DTypeBits(type->dtype) > 16)
      return Unsupported("{} has no integer definition", type->ToString());
  }
  EVOQ_ASSIGN(const PoolPlan plan, AveragePlan(args.node, x.shape(), kGlobal));
  EVOQ_TRY(plan.Spend());
  EVOQ_ASSIGN(const std::vector<uint32_t> values, Centered(x));
  const double scale_x = x.type().quant->scales[0], scale_y = y.quant->scales[0];
  const int32_t zero = y.quant->zero_points[0];
  const auto low = static_cast<int32_t>(IntegerMin(y.dtype)),
             high = static_cast<int32_t>(IntegerMax(y.dtype));
  std::vector<int32_t> out(plan.planes * plan.outputs);
  RunPlan(plan, values.data(), out.data(), [&](const uint32_t* plane, const Taps& taps, int64_t) {
    uint32_t sum = 0;
    for (int64_t offset : taps.offsets) sum += plane[offset];
    const auto multiplier =
        static_cast<float>(scale_x / (scale_y * static_cast<double>(CountOf(taps, args.node))));
    return RoundToInteger(static_cast<float>(static_cast<int32_t>(sum)) * multiplier, zero, low,
                          high);
  });
  return One(FromInt32s(y, out));
}

// ---- LpPool: (sum |x|^p)^(1/p)

template <bool kGlobal>
EvalResult EvaluateLpPool(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t p = args.node.attrs.Int("p", 2);
  if (p < 1) return InvalidInput("attribute p is {}, expected at least 1", p);
  EVOQ_ASSIGN(const PoolPlan plan, AveragePlan(args.node, x.shape(), kGlobal));
  EVOQ_TRY(plan.Spend());
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const T power = static_cast<T>(p);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
    RunPlan(plan, x.data<T>(), y.mutable_data<T>(), [&](const T* plane, const Taps& taps, int64_t) {
      T sum = 0;
      for (int64_t offset : taps.offsets) sum += PowOf(std::fabs(plane[offset]), power);
      return PowOf(sum, 1 / power);
    });
    return One(std::move(y));
  });
}

}  // namespace

namespace reference {

extern const Definition kAveragePool = {.name = "AveragePool",
                                        .evaluate = EvaluateAverage<false>,
                                        .evaluate_quantized = EvaluateAverageQuantized<false>};
extern const Definition kGlobalAveragePool = {.name = "GlobalAveragePool",
                                              .evaluate = EvaluateAverage<true>,
                                              .evaluate_quantized = EvaluateAverageQuantized<true>};
extern const Definition kGlobalLpPool = {.name = "GlobalLpPool", .evaluate = EvaluateLpPool<true>};
extern const Definition kGlobalMaxPool = {.name = "GlobalMaxPool",
                                          .evaluate = EvaluateGlobalMaxPool};
extern const Definition kLpPool = {.name = "LpPool", .evaluate = EvaluateLpPool<false>};
extern const Definition kMaxPool = {.name = "MaxPool", .evaluate = EvaluateMaxPool};

}  // namespace reference
}  // namespace evoq
