// Softmax, LogSoftmax and Hardmax along one axis.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/requant.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// row(values, contiguous) in place for every run of values along the axis, a vector of the element
// type.
template <typename Row>
EvalResult MapRows(const EvalArgs& args, const Row& row) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", -1), x.shape().rank()));
  const AxisSplit split = SplitAt(x.sizes(), axis);
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Tensor y = Tensor::Allocate(x.type());
    std::vector<T> values(split.size);
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const int64_t base = o * split.size * split.inner + i;
        for (int64_t k = 0; k < split.size; ++k) values[k] = x.data<T>()[base + k * split.inner];
        row(values, split.inner == 1);
        for (int64_t k = 0; k < split.size; ++k)
          y.mutable_data<T>()[base + k * split.inner] = values[k];
      }
    }
    return One(std::move(y));
  });
}

// e[k] = exp(x[k] - max); y[k] = e[k] * (1 / sum(e)), e[k] / sum(e) in float64.
EvalResult EvaluateSoftmax(const EvalArgs& args) {
  return MapRows(args, []<typename T>(std::vector<T>& row, bool contiguous) {
    const T max = LargestOf(row.data(), static_cast<int64_t>(row.size()));
    for (T& v : row) v = ExpOf(v - max);
    const T sum = SumAlong<T>(row, contiguous), inverse = 1 / sum;
    for (T& v : row) v = std::is_same_v<T, double> ? v / sum : v * inverse;
  });
}

// The integer definition of kernels/requant.h.
EvalResult EvaluateSoftmaxQuantized(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const TensorType& out = args.output_types[0];
  for (const TensorType* type : {&x.type(), &out}) {
    if (!type->quantized() || !type->quant->per_tensor() || DTypeBits(type->dtype) != 8)
      return Unsupported("{} to {}", x.type().ToString(), out.ToString());
  }
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", -1), x.shape().rank()));
  const AxisSplit split = SplitAt(x.sizes(), axis);
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(out.dtype, x.shape(), *out.quant)));
  const bool is_signed = x.dtype() == DType::kInt8;
  const auto read = [&](int64_t i) {
    return is_signed ? x.data<int8_t>()[i] : static_cast<int32_t>(x.data<uint8_t>()[i]);
  };
  std::vector<float> e(static_cast<size_t>(split.size));
  for (int64_t o = 0; o < split.outer; ++o) {
    for (int64_t i = 0; i < split.inner; ++i) {
      const int64_t base = o * split.size * split.inner + i;
      int32_t max = -128;
      for (int64_t k = 0; k < split.size; ++k) max = std::max(max, read(base + k * split.inner));
      for (int64_t k = 0; k < split.size; ++k)
        e[k] = ExpF(-static_cast<float>(max - read(base + k * split.inner)) *
                    x.type().quant->scales[0]);
      const float m = SoftmaxMultiplier(Sum64F(e.data(), split.size), out.quant->scales[0]);
      for (int64_t k = 0; k < split.size; ++k) {
        y.mutable_raw()[base + k * split.inner] = static_cast<std::byte>(RoundToInteger(
            e[k] * m, out.quant->zero_points[0], static_cast<int32_t>(IntegerMin(out.dtype)),
            static_cast<int32_t>(IntegerMax(out.dtype))));
      }
    }
  }
  return One(std::move(y));
}

// y[k] = (x[k] - max) - log(sum(exp(x - max))).
EvalResult EvaluateLogSoftmax(const EvalArgs& args) {
  return MapRows(args, []<typename T>(std::vector<T>& row, bool contiguous) {
    const T max = LargestOf(row.data(), static_cast<int64_t>(row.size()));
    std::vector<T> exps(row.size());
    for (size_t k = 0; k < row.size(); ++k) exps[k] = ExpOf(row[k] - max);
    const T log_sum = LogOf(SumAlong<T>(exps, contiguous));
    for (T& v : row) v = (v - max) - log_sum;
  });
}

// 1 at the first NaN, or else at the first of the largest; 0 elsewhere.
EvalResult EvaluateHardmax(const EvalArgs& args) {
  return MapRows(args, []<typename T>(std::vector<T>& row, bool) {
    const auto below = [](T a, T b) { return !std::isnan(a) && !(a >= b); };
    const auto best = std::max_element(row.begin(), row.end(), below) - row.begin();
    std::fill(row.begin(), row.end(), T{0});
    if (!row.empty()) row[best] = 1;
  });
}

}  // namespace

namespace reference {

extern const Definition kHardmax = {.name = "Hardmax", .evaluate = EvaluateHardmax};
extern const Definition kLogSoftmax = {.name = "LogSoftmax", .evaluate = EvaluateLogSoftmax};
extern const Definition kSoftmax = {
    .name = "Softmax", .evaluate = EvaluateSoftmax, .evaluate_quantized = EvaluateSoftmaxQuantized};

}  // namespace reference
}  // namespace evoq
