// Where with a condition that is known, as a causal mask is: y = x where it holds, else z; each
// passes its gradient where it was taken.
#include <numeric>

#include "reference/reference.h"
#include "train/gradient.h"

namespace evoq {
namespace {

// n, n + step, ... in the shape of an input.
Tensor Numbers(const TensorType& type, int64_t first, int64_t step) {
  Tensor out = Tensor::Allocate(TensorType(DType::kInt64, type.shape));
  for (int64_t i = 0; i < out.elements(); ++i) out.mutable_data<int64_t>()[i] = first + step * i;
  return out;
}

// By element of y: i for element i of x, -1 - i for element i of z.
Result<std::vector<int32_t>> Sources(const GradientArgs& args) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const TensorType* type : {&args.x[1], &args.x[2]}) {
    if (*type->shape.elements() >= kMost)
      return Unsupported("{} elements", *type->shape.elements());
  }
  const std::vector<Tensor> inputs = {*args.constants[0], Numbers(args.x[1], 0, 1),
                                      Numbers(args.x[2], -1, -1)};
  const std::vector<TensorType> types = {TensorType(DType::kInt64, args.y[0].shape)};
  EVOQ_ASSIGN(const std::vector<Tensor> y, EvaluateAhead(kReference, args.node, inputs, types));
  const std::span<const int64_t> values = y.at(0).values<int64_t>();
  return std::vector<int32_t>(values.begin(), values.end());
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  if (args.constants[0] == nullptr) return Unsupported("a condition that depends on the data");
  EVOQ_ASSIGN(std::vector<int32_t> list, Sources(args));
  const auto from = std::make_shared<const std::vector<int32_t>>(std::move(list));
  const auto forward = [from](const GradientRun& run) {
    float* y = run.y[0];
    for (const int32_t at : *from) *y++ = at >= 0 ? run.x[1][at] : run.x[2][-1 - at];
  };
  const auto backward = [from](const GradientRun& run) {
    const float* dy = run.dy[0];
    for (const int32_t at : *from) {
      float* const dx = run.dx[at >= 0 ? 1 : 2];
      if (dx != nullptr) dx[at >= 0 ? at : -1 - at] += *dy;
      ++dy;
    }
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

}  // namespace

extern const GradientDef kGradientWhere = {.op = "Where", .differentiable = 0b110, .bind = Bind};

}  // namespace evoq
