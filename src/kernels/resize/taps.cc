#include "kernels/resize/taps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/resize/resize.h"

namespace evoq {
namespace {

constexpr int64_t kMostTaps = 256;  // of an output, where many inputs are averaged

// The scale of an axis; `given`: by float32 scales, not by sizes.
struct Scale {
  double value = 1;
  bool given = false;
};

// The place in an input of `in` elements that output o looks at, computed in T; out = in * scale up
// to rounding.
template <typename T>
Result<double> Place(const std::string& mode, T in, T out, T scale, T o) {
  const T half = static_cast<T>(0.5);
  if (mode == "half_pixel") return (o + half) / scale - half;
  if (mode == "half_pixel_symmetric")
    return in / 2 * (1 - out / (scale * in)) + (o + half) / scale - half;
  if (mode == "pytorch_half_pixel") return out > 1 ? (o + half) / scale - half : T{0};
  if (mode == "align_corners") return out > 1 ? o * (in - 1) / (out - 1) : T{0};
  if (mode == "asymmetric") return o / scale;
  return Unsupported("coordinate_transformation_mode {}", mode);
}

// Nearest by given scales is computed in float32, as the operator's definition has it.
Result<double> PlaceOf(const std::string& mode, bool nearest, int64_t in, int64_t out,
                       const Scale& scale, int64_t o) {
  const auto place = [&]<typename T>(T by) {
    return Place<T>(mode, static_cast<T>(in), static_cast<T>(out), by, static_cast<T>(o));
  };
  return nearest && scale.given ? place(static_cast<float>(scale.value)) : place(scale.value);
}

Result<double> Nearest(const std::string& mode, double place) {
  if (mode == "round_prefer_floor") return std::ceil(place - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(place + 0.5);
  if (mode == "floor") return std::floor(place);
  if (mode == "ceil") return std::ceil(place);
  return Unsupported("nearest_mode {}", mode);
}

struct Interpolation {
  bool nearest = false, cubic = false, antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
};

// Weight of a sample at distance d: the triangle, or the cubic convolution kernel (Keys 1981).
double WeightAt(const Interpolation& how, double d) {
  const double x = std::fabs(d), a = how.cubic_a;
  if (!how.cubic) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Of the first `count` outputs.
Result<AxisTaps> TapsOf(const Attrs& attrs, const Interpolation& how, int64_t in, int64_t out,
                        const Scale& scale, int64_t count) {
  AxisTaps taps{in == out && scale.value == 1, in, out, 1, {}, {}};
  const std::string by_place = attrs.String("coordinate_transformation_mode", "half_pixel"),
                    by_distance = attrs.String("nearest_mode", "round_prefer_floor");
  const double last = static_cast<double>(in - 1),
               stretch = how.antialias ? std::min(scale.value, 1.0) : 1,
               radius = (how.cubic ? 2 : 1) / stretch, first = std::floor(-radius) + 1;
  if (!how.nearest) taps.taps = 2 - 2 * static_cast<int64_t>(first);
  if (taps.taps > kMostTaps) return Unsupported("{} taps", taps.taps);
  const auto clamped = [last](double at) {
    return static_cast<int64_t>(std::min(std::max(at, 0.0), last));
  };
  std::vector<double> weights(static_cast<size_t>(taps.taps));
  for (int64_t o = 0; o < count; ++o) {
    EVOQ_ASSIGN(const double place, PlaceOf(by_place, how.nearest, in, out, scale, o));
    if (how.nearest) {
      EVOQ_ASSIGN(const double at, Nearest(by_distance, place));
      taps.index.push_back(clamped(at));
      continue;
    }
    double sum = 0, at = std::floor(place) + first;
    for (double& weight : weights) {
      const bool drop = how.exclude_outside && (at < 0 || at > last);
      weight = drop ? 0 : WeightAt(how, (at - place) * stretch);
      sum += weight;
      taps.index.push_back(clamped(at));
      ++at;
    }
    const bool normalize = (how.antialias || how.exclude_outside) && sum != 0;
    for (double weight : weights)
      taps.weight.push_back(static_cast<float>(normalize ? weight / sum : weight));
  }
  return taps;
}

// The scale of every axis, in ONNX's axis order (N, C, spatial...).
Result<std::vector<Scale>> ScalesOf(const KernelCall& call, const std::vector<int64_t>& in,
                                    const std::vector<int64_t>& out) {
  std::vector<Scale> scales(in.size());
  std::vector<int64_t> axes = call.attrs.Ints("axes");
  if (axes.empty()) {
    for (size_t i = 0; i < in.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  const bool by_scale = call.has_input(2) && ElementsOf(call.inputs[2]) > 0;
  if (by_scale && call.constant(2) == nullptr)
    return Unsupported("the scales are computed at run time");
  std::vector<float> given;
  if (by_scale) {
    EVOQ_ASSIGN(const Tensor real, ToFloat32(*call.constant(2)));
    given.assign(real.values<float>().begin(), real.values<float>().end());
    if (given.size() != axes.size())
      return InvalidInput("{} scales for {} axes", given.size(), axes.size());
  } else if (call.attrs.String("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return Unsupported("keep_aspect_ratio_policy {}",
                       call.attrs.String("keep_aspect_ratio_policy"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    EVOQ_ASSIGN(const int axis, NormalizeAxis(axes[i], static_cast<int>(in.size())));
    const double by_size =
        in[axis] == 0 ? 1 : static_cast<double>(out[axis]) / static_cast<double>(in[axis]);
    scales[axis] = {by_scale ? given[i] : by_size, by_scale};
  }
  return scales;
}

// With the taps of each axis' first `most` outputs.
Result<ResizePlan> Planned(const KernelCall& call, ResizeTaps allowed, int64_t most) {
  const bool last = call.attrs.Int("channels_last") == 1, few = allowed == ResizeTaps::kFew;
  const std::string mode = call.attrs.String("mode", "nearest");
  const Interpolation how{.nearest = mode == "nearest",
                          .cubic = mode == "cubic",
                          .antialias = call.attrs.Int("antialias") != 0,
                          .exclude_outside = call.attrs.Int("exclude_outside") != 0,
                          .cubic_a = call.attrs.Float("cubic_coeff_a", -0.75f)};
  if (few ? mode != "nearest" && mode != "linear" : mode != "cubic" && mode != "linear")
    return Unsupported("mode {}", mode);
  if (few && (how.antialias || how.exclude_outside))
    return Unsupported("antialias or exclude_outside");
  auto in = call.inputs[0].shape.sizes(), out = call.outputs[0].shape.sizes();
  const size_t rank = in.size();
  const size_t most_rank = few ? 5 : 4;
  if (rank < 3 || rank > most_rank || out.size() != rank)
    return Unsupported("rank {}, expected 3 to {}", rank, most_rank);
  if (last) {  // in ONNX's order
    for (auto* sizes : {&in, &out}) {
      sizes->insert(sizes->begin() + 1, sizes->back());
      sizes->pop_back();
    }
  }
  EVOQ_ASSIGN(const std::vector<Scale> scales, ScalesOf(call, in, out));
  if (in[0] != out[0] || in[1] != out[1] || scales[0].value != 1 || scales[1].value != 1)
    return Unsupported("batch or channels resized");
  ResizePlan plan;
  plan.nearest = how.nearest;
  plan.images = last ? in[0] : in[0] * in[1];
  plan.channels = last ? in[1] : 1;
  AxisTaps* taps[] = {&plan.d, &plan.h, &plan.w};
  for (AxisTaps* t : taps) *t = {true, 1, 1, 2, {0, 0}, {1, 0}};
  for (size_t i = 2; i < rank; ++i) {
    if (in[i] == 0 || out[i] == 0) return Unsupported("an empty axis");
    EVOQ_ASSIGN(*taps[3 - (rank - i)],
                TapsOf(call.attrs, how, in[i], out[i], scales[i], std::min(out[i], most)));
  }
  return plan;
}

}  // namespace

std::vector<LineBlock> LineBlocks(const AxisTaps& taps) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (taps.keep || taps.taps != 2 || std::min(taps.in, taps.out) < kLineBlock ||
      std::max(taps.in, taps.out) > kMost)
    return {};
  std::vector<LineBlock> blocks;
  for (int64_t o = 0; o < taps.out; o += kLineBlock) {
    const int64_t to = std::min(o, taps.out - kLineBlock);
    const auto index = std::span(taps.index).subspan(static_cast<size_t>(2 * to), 2 * kLineBlock);
    const auto [least, most] = std::ranges::minmax(index);
    const int64_t from = std::min(least, taps.in - kLineBlock);
    if (most - from >= kLineBlock) return {};
    LineBlock& block = blocks.emplace_back();
    block.from = static_cast<int32_t>(from), block.to = static_cast<int32_t>(to);
    for (size_t i = 0; i < kLineBlock; ++i) {
      block.left[i] = static_cast<uint8_t>(index[2 * i] - from);
      block.right[i] = static_cast<uint8_t>(index[2 * i + 1] - from);
      block.left_weight[i] = taps.weight[2 * (static_cast<size_t>(to) + i)];
      block.right_weight[i] = taps.weight[2 * (static_cast<size_t>(to) + i) + 1];
    }
  }
  return blocks;
}

Result<ResizePlan> PlanResize(const KernelCall& call, ResizeTaps taps) {
  return Planned(call, taps, std::numeric_limits<int64_t>::max());
}

Status CheckResize(const KernelCall& call, ResizeTaps taps) {
  EVOQ_TRY(Planned(call, taps, 1));  // whether there is a tap does not depend on which
  return {};
}

}  // namespace evoq
