#include "kernels/elementwise/broadcast.h"

namespace evoq {
namespace {

// Strides of `from` over the dimensions of `to`: 0 where it is broadcast.
std::optional<std::vector<int64_t>> StridesOver(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return std::nullopt;
  const auto own = RowMajorStrides(from.sizes());
  std::vector<int64_t> strides(to.rank(), 0);
  for (int i = 0; i < from.rank(); ++i) {
    const int at = to.rank() - from.rank() + i;
    if (from[i] == to[at]) {
      strides[at] = own[i];
    } else if (from[i].value != 1) {
      return std::nullopt;
    }
    if (to[at].value == 1) strides[at] = 0;
  }
  return strides;
}

template <size_t kInputs>
struct Axis {
  int64_t size;
  PerInput<kInputs> stride;

  // Whether each input goes on along this axis as it did along `inner`.
  bool Continues(const Axis& inner) const {
    for (size_t k = 0; k < kInputs; ++k) {
      if (stride[k] != inner.size * inner.stride[k]) return false;
    }
    return true;
  }
};

}  // namespace

template <size_t kInputs>
std::optional<BroadcastPlanOf<kInputs>> PlanBroadcastOf(
    const std::array<const Shape*, kInputs>& inputs, const Shape& y) {
  std::array<std::vector<int64_t>, kInputs> strides;
  for (size_t k = 0; k < kInputs; ++k) {
    auto over = StridesOver(*inputs[k], y);
    if (!over) return std::nullopt;
    strides[k] = *std::move(over);
  }
  // Neighbours along which all inputs go on as they did merge into one axis; axes of size 1 vanish.
  std::vector<Axis<kInputs>> axes;
  for (int i = 0; i < y.rank(); ++i) {
    Axis<kInputs> axis{y[i].value, {}};
    for (size_t k = 0; k < kInputs; ++k) axis.stride[k] = strides[k][static_cast<size_t>(i)];
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().Continues(axis)) {
      axis.size *= axes.back().size;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  BroadcastPlanOf<kInputs> plan;
  plan.elements = y.elements().value();
  if (plan.elements == 0 || axes.empty()) return plan;
  plan.inner = axes.back().size;
  plan.step = axes.back().stride;
  if (static_cast<int>(axes.size()) - 1 > plan.kMaxOuter) return std::nullopt;
  plan.outer_rank = static_cast<int>(axes.size()) - 1;
  for (int i = 0; i < plan.outer_rank; ++i) {
    plan.outer[i] = axes[i].size;
    plan.stride[i] = axes[i].stride;
  }
  return plan;
}
template std::optional<BroadcastPlanOf<2>> PlanBroadcastOf(
    const std::array<const Shape*, 2>& inputs, const Shape& y);
template std::optional<BroadcastPlanOf<3>> PlanBroadcastOf(
    const std::array<const Shape*, 3>& inputs, const Shape& y);

}  // namespace evoq
