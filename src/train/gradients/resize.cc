// Resize of spatial axes, which is linear: with the taps t of output o along each axis
//   y[o] = sum over t of w[o, t] x[i[o, t]],   dx[i[o, t]] += w[o, t] dy[o]
// where weights of several axes are products.
#include <array>

#include "kernels/resize/taps.h"
#include "train/gradient.h"

namespace evoq {
namespace {

struct Tap {
  int64_t index;
  float weight;
};

// The taps of each output along one axis, those of weight 0 left out.
struct Axis {
  int64_t in = 1;
  std::vector<std::vector<Tap>> outputs;
};

Axis AxisOf(const AxisTaps& taps) {
  Axis axis{taps.in, std::vector<std::vector<Tap>>(static_cast<size_t>(taps.out))};
  const auto count = static_cast<size_t>(taps.taps);
  for (size_t o = 0; o < axis.outputs.size(); ++o) {
    for (size_t t = o * count; t < (o + 1) * count; ++t) {
      const float weight = taps.weight.empty() ? 1.0f : taps.weight[t];
      if (weight != 0) axis.outputs[o].push_back({taps.index[t], weight});
    }
  }
  return axis;
}

struct Taps {
  int64_t images = 1;
  std::array<Axis, 3> axes;

  // Calls body(output, input, weight) for each tap of all outputs, in their order.
  template <typename Body>
  void ForEach(const Body& body) const {
    const auto& [d, h, w] = axes;
    int64_t o = 0;
    for (int64_t image = 0; image < images; ++image) {
      for (const auto& of_d : d.outputs) {
        for (const auto& of_h : h.outputs) {
          for (const auto& of_w : w.outputs) {
            for (const Tap& a : of_d) {
              for (const Tap& b : of_h) {
                const int64_t line = ((image * d.in + a.index) * h.in + b.index) * w.in;
                for (const Tap& c : of_w) body(o, line + c.index, a.weight * b.weight * c.weight);
              }
            }
            ++o;
          }
        }
      }
    }
  }
};

Result<BoundGradient> Bind(const GradientArgs& args) {
  const KernelCall call{args.node.op, args.node.attrs, args.x, args.y, args.constants};
  auto plan = PlanResize(call, ResizeTaps::kFew);
  if (!plan) plan = PlanResize(call, ResizeTaps::kAny);
  if (!plan) return tl::unexpected<Error>(std::move(plan.error()));
  const Taps taps{plan->images, {AxisOf(plan->d), AxisOf(plan->h), AxisOf(plan->w)}};
  const int64_t outputs = *args.y[0].shape.elements();
  return BoundGradient{
      .forward =
          [taps, outputs](const GradientRun& run) {
            std::fill_n(run.y[0], outputs, 0.0f);
            taps.ForEach([&](int64_t o, int64_t i, float w) { run.y[0][o] += w * run.x[0][i]; });
          },
      .backward =
          [taps](const GradientRun& run) {
            taps.ForEach([&](int64_t o, int64_t i, float w) { run.dx[0][i] += w * run.dy[0][o]; });
          }};
}

}  // namespace

extern const GradientDef kGradientResize;
const GradientDef kGradientResize = {.op = "Resize", .bind = Bind};

}  // namespace evoq
