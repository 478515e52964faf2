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

struct Axis {
  int64_t size, a, b;
};

}  // namespace

std::optional<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b, const Shape& y) {
  const auto a_strides = StridesOver(a, y), b_strides = StridesOver(b, y);
  if (!a_strides || !b_strides) return std::nullopt;
  // Neighbours along which both inputs go on as they did merge into one axis; axes of size 1 vanish.
  std::vector<Axis> axes;
  for (int i = 0; i < y.rank(); ++i) {
    const Axis axis{y[i].value, (*a_strides)[i], (*b_strides)[i]};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().a == axis.size * axis.a && axes.back().b == axis.size * axis.b) {
      axes.back() = {axes.back().size * axis.size, axis.a, axis.b};
    } else {
      axes.push_back(axis);
    }
  }
  BroadcastPlan plan;
  plan.elements = y.elements().value();
  if (plan.elements == 0 || axes.empty()) return plan;
  plan.inner = axes.back().size;
  plan.a_step = axes.back().a;
  plan.b_step = axes.back().b;
  if (static_cast<int>(axes.size()) - 1 > BroadcastPlan::kMaxOuter) return std::nullopt;
  plan.outer_rank = static_cast<int>(axes.size()) - 1;
  for (int i = 0; i < plan.outer_rank; ++i) {
    plan.outer[i] = axes[i].size;
    plan.a_stride[i] = axes[i].a;
    plan.b_stride[i] = axes[i].b;
  }
  return plan;
}

}  // namespace evoq
