#include "train/weight_rounder.h"

#include <algorithm>
#include <cmath>

#include "reference/reference.h"

namespace evoq {

Result<WeightRounder> WeightRounder::Create(const Graph& graph, const QuantScheme& scheme,
                                            QuantizeOptions options) {
  WeightRounder rounder;
  options.round = [&](const WeightRounding& rounding) {
    rounder.roundings_.push_back(rounding);
    rounder.roundings_.back().values = Tensor();
    return RoundToNearest(rounding, options.threads);
  };
  Graph rounded = graph;
  EVOQ_TRY(scheme.run(rounded, {}, options));
  return rounder;
}

Status WeightRounder::Choose(const TrainingPlan& plan) {
  chosen_.clear();
  for (const TrainedConstant& parameter : plan.parameters) {
    const auto found = std::ranges::find(roundings_, parameter.name, &WeightRounding::weight);
    if (found != roundings_.end())
      chosen_.push_back({static_cast<size_t>(found - roundings_.begin()), parameter});
  }
  if (chosen_.empty()) return Unsupported("the scheme rounds no weight that is trained");
  return {};
}

Status WeightRounder::Round(ThreadPool& pool, std::span<const float> from,
                            std::span<float> to) const {
  std::ranges::copy(from, to.begin());
  for (const auto& [rounding, parameter] : chosen_) {
    const auto own = from.subspan(static_cast<size_t>(parameter.offset),
                                  static_cast<size_t>(parameter.elements));
    if (!std::ranges::all_of(own, [](float v) { return std::isfinite(v); }))
      return Fail(ErrorCode::kConditionFailed, "{} is not finite any more", parameter.name);
  }
  pool.ParallelFor(static_cast<int64_t>(chosen_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [rounding, parameter] = chosen_[static_cast<size_t>(i)];
      WeightRounding own = roundings_[rounding];
      own.values = Tensor::Allocate(TensorType(DType::kFloat32, parameter.shape));
      std::copy_n(from.data() + parameter.offset, parameter.elements,
                  own.values.mutable_data<float>());
      const Tensor real = ToFloat32(RoundToNearest(own, 1)).value();
      std::copy_n(real.data<float>(), parameter.elements, to.data() + parameter.offset);
    }
  });
  return {};
}

}  // namespace evoq
