// Softmax, LogSoftmax and Hardmax along one axis.
#include <algorithm>
#include <cmath>

#include "kernels/math/math.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferAlongAxis(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis, IntAttr(args.node, "axis", -1));
  if (args.inputs[0].shape.ranked()) EVOQ_TRY(NormalizeAxis(axis, args.inputs[0].shape.rank()));
  return FloatSameAsInput0(args);
}

// row(values, contiguous) in place for every run of values along the axis.
template <typename Row>
EvalResult MapRows(const EvalArgs& args, const Row& row) {
  const Tensor& x = args.inputs[0];
  if (x.dtype() != DType::kFloat32) return Unsupported("{} input", DTypeName(x.dtype()));
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", -1), x.shape().rank()));
  const AxisSplit split = SplitAt(x.sizes(), axis);
  Tensor y = Tensor::Allocate(x.type());
  std::vector<float> values(split.size);
  for (int64_t o = 0; o < split.outer; ++o) {
    for (int64_t i = 0; i < split.inner; ++i) {
      const int64_t base = o * split.size * split.inner + i;
      for (int64_t k = 0; k < split.size; ++k) values[k] = x.data<float>()[base + k * split.inner];
      row(values, split.inner == 1);
      for (int64_t k = 0; k < split.size; ++k) y.mutable_data<float>()[base + k * split.inner] = values[k];
    }
  }
  return One(std::move(y));
}

// e[k] = ExpF(x[k] - max); y[k] = e[k] / AxisSum(e).
EvalResult EvaluateSoftmax(const EvalArgs& args) {
  return MapRows(args, [](std::vector<float>& row, bool contiguous) {
    const auto n = static_cast<int64_t>(row.size());
    const float max = MaxF(row.data(), n);
    for (float& v : row) v = ExpF(v - max);
    const float sum = AxisSum(row, contiguous);
    for (float& v : row) v = v / sum;
  });
}

// y[k] = (x[k] - max) - LogF(AxisSum(ExpF(x - max))).
EvalResult EvaluateLogSoftmax(const EvalArgs& args) {
  return MapRows(args, [](std::vector<float>& row, bool contiguous) {
    const auto n = static_cast<int64_t>(row.size());
    const float max = MaxF(row.data(), n);
    std::vector<float> exps(row.size());
    for (int64_t k = 0; k < n; ++k) exps[k] = ExpF(row[k] - max);
    const float log_sum = LogF(AxisSum(exps, contiguous));
    for (float& v : row) v = (v - max) - log_sum;
  });
}

// 1 at the first of the largest, 0 elsewhere.
EvalResult EvaluateHardmax(const EvalArgs& args) {
  return MapRows(args, [](std::vector<float>& row, bool) {
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    std::fill(row.begin(), row.end(), 0.0f);
    if (!row.empty()) row[best] = 1.0f;
  });
}

}  // namespace

extern const OpDef kHardmax = {.name = "Hardmax", .infer = InferAlongAxis, .evaluate = EvaluateHardmax};
extern const OpDef kLogSoftmax = {.name = "LogSoftmax", .infer = InferAlongAxis, .evaluate = EvaluateLogSoftmax};
extern const OpDef kSoftmax = {.name = "Softmax", .quant = QuantTrait::kReal, .infer = InferAlongAxis, .evaluate = EvaluateSoftmax};

}  // namespace evoq
