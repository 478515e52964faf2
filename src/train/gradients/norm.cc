// Normalizations over parts of one sample, lines of n values each:
//   mean = sum x / n, var = sum (x - mean)^2 / n, u = (x - mean) / sqrt(var + epsilon),
//   y = scale u + bias
// and with t = dy scale
//   dx = (t - sum t / n - u sum(t u) / n) / sqrt(var + epsilon),  dscale = sum dy u, dbias = sum dy
// LayerNormalization (Ba, Kiros, Hinton, 2016) over the last axes; GroupNormalization (Wu and He,
// 2018) over some channels and all positions; InstanceNormalization (Ulyanov, Vedaldi, Lempitsky,
// 2016) over the positions of a channel; RMSNormalization (Zhang and Sennrich, 2019) takes 0 for
// the mean, and has no bias.
#include <cmath>
#include <numeric>

#include "ops/util.h"
#include "train/gradient.h"
#include "train/lanes.h"

namespace evoq {
namespace {

struct NormLines {
  int64_t lines = 1, n = 1;
  float epsilon = 1e-5f;
  bool centered = true;
  // By line modulo their number and element: which of scale, and of bias, it takes. Empty where
  // element i of every line takes number i.
  std::vector<std::vector<int32_t>> scale, bias;
};

// Calls body(scale's index of element i, bias's index) for a line.
template <typename Body>
void WithIndices(const NormLines& s, int64_t line, const Body& body) {
  const auto plain = [](int64_t i) { return i; };
  const auto listed = [&](const std::vector<std::vector<int32_t>>& lists) {
    const int32_t* const list = lists[static_cast<size_t>(line) % lists.size()].data();
    return [list](int64_t i) { return static_cast<int64_t>(list[i]); };
  };
  if (s.scale.empty() && s.bias.empty()) return body(plain, plain);
  body(listed(s.scale), listed(s.bias));
}

// `saved`: of each line its mean, then of each 1 / sqrt(var + epsilon).
void Forward(const NormLines& s, const GradientRun& run) {
  const auto n = static_cast<double>(s.n);
  const bool bias = run.x.size() > 2 && run.x[2] != nullptr;
  for (int64_t line = 0; line < s.lines; ++line) {
    const float* const x = run.x[0] + line * s.n;
    float* const y = run.y[0] + line * s.n;
    const auto mean =
        static_cast<float>(s.centered ? SumInLanes(s.n, [&](int64_t i) { return x[i]; }) / n : 0);
    const double squares = SumInLanes(s.n, [&](int64_t i) {
      const double off = static_cast<double>(x[i]) - mean;
      return off * off;
    });
    const auto inverse = static_cast<float>(1 / std::sqrt(squares / n + s.epsilon));
    run.saved[line] = mean;
    run.saved[s.lines + line] = inverse;
    WithIndices(s, line, [&](const auto& scale, const auto& shift) {
      for (int64_t i = 0; i < s.n; ++i) y[i] = (x[i] - mean) * inverse * run.x[1][scale(i)];
      for (int64_t i = 0; i < s.n && bias; ++i) y[i] += run.x[2][shift(i)];
    });
  }
}

void Backward(const NormLines& s, const GradientRun& run) {
  const auto n = static_cast<double>(s.n);
  const bool bias = run.dx.size() > 2 && run.dx[2] != nullptr;
  for (int64_t line = 0; line < s.lines; ++line) {
    const float *const x = run.x[0] + line * s.n, *const dy = run.dy[0] + line * s.n;
    const float mean = run.saved[line], inverse = run.saved[s.lines + line];
    const auto u = [&](int64_t i) { return (x[i] - mean) * inverse; };
    WithIndices(s, line, [&](const auto& scale, const auto& shift) {
      for (int64_t i = 0; i < s.n && run.dx[1] != nullptr; ++i) run.dx[1][scale(i)] += dy[i] * u(i);
      for (int64_t i = 0; i < s.n && bias; ++i) run.dx[2][shift(i)] += dy[i];
      if (run.dx[0] == nullptr) return;
      const auto t = [&](int64_t i) { return dy[i] * run.x[1][scale(i)]; };
      const auto all = static_cast<float>(s.centered ? SumInLanes(s.n, t) / n : 0);
      const auto along =
          static_cast<float>(SumInLanes(s.n, [&](int64_t i) { return t(i) * u(i); }) / n);
      float* const dx = run.dx[0] + line * s.n;
      for (int64_t i = 0; i < s.n; ++i) dx[i] += inverse * (t(i) - all - u(i) * along);
    });
  }
}

BoundGradient Bound(NormLines s) {
  const int64_t saved = 2 * s.lines;
  const auto lines = std::make_shared<const NormLines>(std::move(s));
  return BoundGradient{.forward = [lines](const GradientRun& run) { Forward(*lines, run); },
                       .backward = [lines](const GradientRun& run) { Backward(*lines, run); },
                       .saved = saved};
}

// Which element of a tensor of these sizes each element of `to` is, where it is broadcast.
std::vector<int32_t> Broadcast(const std::vector<int64_t>& sizes, const std::vector<int64_t>& to) {
  const std::vector<int64_t> strides = BroadcastStrides(sizes, to);
  std::vector<int32_t> out;
  for (int64_t i = 0; i < *Shape(to).elements(); ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = to.size(); d-- > 0; rest /= to[d]) at += rest % to[d] * strides[d];
    out.push_back(static_cast<int32_t>(at));
  }
  return out;
}

// ---- over the axes from `axis` on

Result<NormLines> TrailingLines(const GradientArgs& args) {
  for (size_t i = 1; i < args.node.outputs.size(); ++i) {
    if (args.node.outputs[i].valid()) return Unsupported("output {}", i);
  }
  const std::vector<int64_t> sizes = args.x[0].shape.sizes();
  EVOQ_ASSIGN(const int axis,
              NormalizeAxis(args.node.attrs.Int("axis", -1), args.x[0].shape.rank()));
  const std::vector<int64_t> inner(sizes.begin() + axis, sizes.end());
  NormLines s{.n = *Shape(inner).elements(), .epsilon = args.node.attrs.Float("epsilon", 1e-5f)};
  for (int d = 0; d < axis; ++d) s.lines *= sizes[static_cast<size_t>(d)];
  const bool bias = args.x.size() > 2 && args.x[2].dtype != DType::kUndefined;
  const bool plain =
      args.x[1].shape.elements() == s.n && (!bias || args.x[2].shape.elements() == s.n);
  if (!plain) {
    s.scale = {Broadcast(args.x[1].shape.sizes(), inner)};
    s.bias = {Broadcast(bias ? args.x[2].shape.sizes() : inner, inner)};
  }
  return s;
}

Result<BoundGradient> BindLayer(const GradientArgs& args) {
  EVOQ_ASSIGN(NormLines s, TrailingLines(args));
  return Bound(std::move(s));
}

Result<BoundGradient> BindRms(const GradientArgs& args) {
  EVOQ_ASSIGN(NormLines s, TrailingLines(args));
  s.centered = false;
  return Bound(std::move(s));
}

// ---- over the channels of a group and all positions

NormLines GroupLines(const GradientArgs& args, int64_t groups) {
  const std::vector<int64_t> sizes = args.x[0].shape.sizes();
  const AxisSplit split = SplitAt(sizes, 1);
  const int64_t channels = split.size / std::max<int64_t>(groups, 1);
  NormLines s{.lines = split.outer * groups,
              .n = channels * split.inner,
              .epsilon = args.node.attrs.Float("epsilon", 1e-5f)};
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<int32_t> list;
    for (int64_t i = 0; i < s.n; ++i)
      list.push_back(static_cast<int32_t>(g * channels + i / split.inner));
    s.scale.push_back(std::move(list));
  }
  s.bias = s.scale;
  return s;
}

Result<BoundGradient> BindGroup(const GradientArgs& args) {
  return Bound(GroupLines(args, args.node.attrs.Int("num_groups")));
}

Result<BoundGradient> BindInstance(const GradientArgs& args) {
  return Bound(GroupLines(args, args.x[0].shape[1].value));
}

}  // namespace

extern const GradientDef kGradientGroupNormalization, kGradientInstanceNormalization,
    kGradientLayerNormalization, kGradientRMSNormalization;
const GradientDef kGradientGroupNormalization = {
    .op = "GroupNormalization", .differentiable = 0b111, .bind = BindGroup};
const GradientDef kGradientInstanceNormalization = {
    .op = "InstanceNormalization", .differentiable = 0b111, .bind = BindInstance};
const GradientDef kGradientLayerNormalization = {
    .op = "LayerNormalization", .differentiable = 0b111, .bind = BindLayer};
const GradientDef kGradientRMSNormalization = {
    .op = "RMSNormalization", .differentiable = 0b11, .bind = BindRms};

}  // namespace evoq
