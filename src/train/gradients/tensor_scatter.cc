// TensorScatter: y is the cache with the update written over it at places that are known, so the
// update's gradient is that of y there, and the cache's that of y elsewhere.
#include <numeric>

#include "reference/reference.h"
#include "train/gradients/moves.h"

namespace evoq {
namespace {

Result<BoundGradient> Bind(const GradientArgs& args) {
  const bool indexed = args.x.size() > 2 && args.x[2].dtype != DType::kUndefined;
  if (indexed && args.constants[2] == nullptr) return Unsupported("input 2 that is not known");
  const int64_t cache = *args.x[0].shape.elements(), update = *args.x[1].shape.elements();
  Tensor before = Tensor::Allocate(TensorType(DType::kInt64, args.x[0].shape)),
         numbers = Tensor::Allocate(TensorType(DType::kInt64, args.x[1].shape));
  std::fill_n(before.mutable_data<int64_t>(), cache, int64_t{-1});
  std::iota(numbers.mutable_data<int64_t>(), numbers.mutable_data<int64_t>() + update, int64_t{0});
  EVOQ_ASSIGN(
      const std::vector<Tensor> places,
      EvaluateAhead(kReference, args.node,
                    std::vector<Tensor>{before, numbers, indexed ? *args.constants[2] : Tensor()},
                    std::vector<TensorType>{TensorType(DType::kInt64, args.y[0].shape)}));
  const auto values = places[0].values<int64_t>();
  // Of each element of y, where it lies in the update; -1: in the cache, at its own place.
  const auto from = std::make_shared<const std::vector<int64_t>>(values.begin(), values.end());
  return BoundGradient{.forward =
                           [from](const GradientRun& run) {
                             for (size_t i = 0; i < from->size(); ++i)
                               run.y[0][i] = (*from)[i] < 0 ? run.x[0][i] : run.x[1][(*from)[i]];
                           },
                       .backward =
                           [from](const GradientRun& run) {
                             for (size_t i = 0; i < from->size(); ++i) {
                               const bool updated = (*from)[i] >= 0;
                               float* const to = run.dx[updated ? 1 : 0];
                               if (to != nullptr)
                                 to[updated ? (*from)[i] : static_cast<int64_t>(i)] += run.dy[0][i];
                             }
                           }};
}

}  // namespace

extern const GradientDef kGradientTensorScatter;
const GradientDef kGradientTensorScatter = {
    .op = "TensorScatter", .differentiable = 0b11, .bind = Bind};

}  // namespace evoq
