// Softmax, LogSoftmax and LpNormalization along an axis; means, sums, lengths, extremes over axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math/math.h"
#include "kernels/math/unary_loops.h"
#include "ops/reduce.h"
#include "ops/util.h"
#include "train/gradient.h"

namespace evoq {
namespace {

Result<AxisSplit> AxisOf(const GradientArgs& args) {
  EVOQ_ASSIGN(const int axis,
              NormalizeAxis(args.node.attrs.Int("axis", -1), args.x[0].shape.rank()));
  return SplitAt(args.x[0].shape.sizes(), axis);
}

// Calls body(first element) for each line along the axis; its elements are `inner` apart.
template <typename Body>
void ForEachLine(const AxisSplit& s, const Body& body) {
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i) body(o * s.size * s.inner + i);
  }
}

// The largest element, and the logarithm of the sum of e^(x - largest).
struct LogSum {
  float largest, log_sum;
};
LogSum LogSumOf(const float* x, int64_t n, int64_t step) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, x[j * step]);
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += ExpF(x[j * step] - largest);
  return {largest, LogF(static_cast<float>(sum))};
}

// LogSumOf of a line whose elements stand beside each other, and then its softmax, with vectors.
void SoftmaxOfLine(const GradientRun& run, const float* x, int64_t n, float* y) {
  const auto exp = [&](float* line) {
    UnaryTableFor(run.isa).apply({.kind = UnaryKind::kExp}, line, line, n);
  };
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, x[j]);
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] - largest;
  exp(y);
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += y[j];
  const float log_sum = LogF(static_cast<float>(sum));
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] - largest - log_sum;
  exp(y);
}

// y = e^(x - largest) / sum; dx = y (dy - sum of dy y).
Result<BoundGradient> BindSoftmax(const GradientArgs& args) {
  EVOQ_ASSIGN(const AxisSplit s, AxisOf(args));
  const auto forward = [s](const GradientRun& run) {
    for (int64_t o = 0; o < s.outer && s.inner == 1; ++o)
      SoftmaxOfLine(run, run.x[0] + o * s.size, s.size, run.y[0] + o * s.size);
    if (s.inner == 1) return;
    ForEachLine(s, [&](int64_t at) {
      const LogSum sum = LogSumOf(run.x[0] + at, s.size, s.inner);
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner)
        run.y[0][j] = ExpF(run.x[0][j] - sum.largest - sum.log_sum);
    });
  };
  const auto backward = [s](const GradientRun& run) {
    ForEachLine(s, [&](int64_t at) {
      double sum = 0;
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner)
        sum += static_cast<double>(run.dy[0][j]) * run.y[0][j];
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner)
        run.dx[0][j] += run.y[0][j] * (run.dy[0][j] - static_cast<float>(sum));
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

// y = x - largest - log of the sum; dx = dy - e^y (sum of dy).
Result<BoundGradient> BindLogSoftmax(const GradientArgs& args) {
  EVOQ_ASSIGN(const AxisSplit s, AxisOf(args));
  const auto forward = [s](const GradientRun& run) {
    ForEachLine(s, [&](int64_t at) {
      const LogSum sum = LogSumOf(run.x[0] + at, s.size, s.inner);
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner)
        run.y[0][j] = run.x[0][j] - sum.largest - sum.log_sum;
    });
  };
  const auto backward = [s](const GradientRun& run) {
    ForEachLine(s, [&](int64_t at) {
      double sum = 0;
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner) sum += run.dy[0][j];
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner)
        run.dx[0][j] += run.dy[0][j] - ExpF(run.y[0][j]) * static_cast<float>(sum);
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

// ---- ReduceMean, ReduceSum, ...(x, axes?)

struct Reduction {
  std::vector<int64_t> sizes, strides;        // of x, and of y by x's axes
  int64_t elements = 0, kept = 1, count = 1;  // of x, of y, of x for each of y

  // Calls body(i, where element i of x goes in y).
  template <typename Body>
  void ForEach(const Body& body) const {
    for (int64_t i = 0; i < elements; ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) at += rest % sizes[d] * strides[d];
      body(i, at);
    }
  }
};

Result<Reduction> ReductionOf(const GradientArgs& args) {
  std::vector<int64_t> axes;
  const bool given = args.x.size() > 1 && args.x[1].dtype != DType::kUndefined;
  if (given) {
    if (args.constants[1] == nullptr) return Unsupported("axes that are no constants");
    EVOQ_ASSIGN(axes, ToInt64s(*args.constants[1]));
  }
  Reduction r{.sizes = args.x[0].shape.sizes(), .elements = *args.x[0].shape.elements()};
  EVOQ_ASSIGN(const std::vector<bool> reduced,
              ReducedAxes(args.node, given ? &axes : nullptr, static_cast<int>(r.sizes.size())));
  r.strides.assign(r.sizes.size(), 0);
  for (size_t d = r.sizes.size(); d-- > 0;) {
    (reduced[d] ? r.count : r.kept) *= r.sizes[d];
    if (!reduced[d]) r.strides[d] = r.kept / std::max<int64_t>(r.sizes[d], 1);
  }
  return r;
}

// y = finish(sum of term(x)); the derivative is slope(x, y).
template <typename Term, typename Finish, typename Slope>
Result<BoundGradient> SumOf(const GradientArgs& args, const Term& term, const Finish& finish,
                            const Slope& slope) {
  EVOQ_ASSIGN(const Reduction r, ReductionOf(args));
  const auto forward = [r, term, finish](const GradientRun& run) {
    std::vector<double> sums(static_cast<size_t>(r.kept), 0);
    r.ForEach([&](int64_t i, int64_t at) { sums[at] += term(run.x[0][i]); });
    for (int64_t i = 0; i < r.kept; ++i)
      run.y[0][i] = static_cast<float>(finish(sums[i], static_cast<double>(r.count)));
  };
  const auto backward = [r, slope](const GradientRun& run) {
    const float part = 1 / static_cast<float>(r.count);
    r.ForEach([&](int64_t i, int64_t at) {
      run.dx[0][i] += run.dy[0][at] * slope(run.x[0][i], run.y[0][at], part);
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

constexpr auto kItself = [](double x) { return x; };
constexpr auto kSquare = [](double x) { return x * x; };
constexpr auto kSum = [](double sum, double) { return sum; };

Result<BoundGradient> BindReduceMean(const GradientArgs& args) {
  return SumOf(
      args, kItself, [](double sum, double count) { return sum / count; },
      [](float, float, float part) { return part; });
}
Result<BoundGradient> BindReduceSum(const GradientArgs& args) {
  return SumOf(args, kItself, kSum, [](float, float, float) { return 1.0f; });
}
Result<BoundGradient> BindReduceSumSquare(const GradientArgs& args) {
  return SumOf(args, kSquare, kSum, [](float x, float, float) { return 2 * x; });
}
// Derivatives at 0 are 0, as those of other tools are.
Result<BoundGradient> BindReduceL1(const GradientArgs& args) {
  return SumOf(
      args, [](double x) { return std::fabs(x); }, kSum,
      [](float x, float, float) { return static_cast<float>((x > 0) - (x < 0)); });
}
Result<BoundGradient> BindReduceL2(const GradientArgs& args) {
  return SumOf(
      args, kSquare, [](double sum, double) { return std::sqrt(sum); },
      [](float x, float y, float) { return y > 0 ? x / y : 0.0f; });
}

// The first of the largest (smallest) has the gradient; `saved` holds where it is, as int32.
template <typename Before>
Result<BoundGradient> BindExtreme(const GradientArgs& args, const Before& before) {
  EVOQ_ASSIGN(const Reduction r, ReductionOf(args));
  if (r.elements > std::numeric_limits<int32_t>::max() || r.count == 0)
    return Unsupported("{} elements", r.elements);
  const auto forward = [r, before](const GradientRun& run) {
    auto* const from = reinterpret_cast<int32_t*>(run.saved);
    std::fill_n(from, r.kept, -1);
    r.ForEach([&](int64_t i, int64_t at) {
      if (from[at] >= 0 && !before(run.x[0][i], run.x[0][from[at]])) return;
      from[at] = static_cast<int32_t>(i);
    });
    for (int64_t i = 0; i < r.kept; ++i) run.y[0][i] = run.x[0][from[i]];
  };
  const auto backward = [r](const GradientRun& run) {
    const auto* const from = reinterpret_cast<const int32_t*>(run.saved);
    for (int64_t i = 0; i < r.kept; ++i) run.dx[0][from[i]] += run.dy[0][i];
  };
  return BoundGradient{.forward = forward, .backward = backward, .saved = r.kept};
}

Result<BoundGradient> BindReduceMax(const GradientArgs& args) {
  return BindExtreme(args, [](float a, float b) { return a > b; });
}
Result<BoundGradient> BindReduceMin(const GradientArgs& args) {
  return BindExtreme(args, [](float a, float b) { return a < b; });
}

// ---- LpNormalization: y = x / |x| along an axis; dx = (dy - t sum of dy y) / |x| with t = y for
// |x| of squares, and the sign of x for that of magnitudes. Lines of zeros stay.
Result<BoundGradient> BindLpNormalization(const GradientArgs& args) {
  EVOQ_ASSIGN(const AxisSplit s, AxisOf(args));
  const bool squares = args.node.attrs.Int("p", 2) == 2;
  const auto length = [s, squares](const float* x) {
    double sum = 0;
    for (int64_t j = 0; j < s.size * s.inner; j += s.inner)
      sum += squares ? double{x[j]} * x[j] : std::fabs(double{x[j]});
    return squares ? std::sqrt(sum) : sum;
  };
  const auto forward = [s, length](const GradientRun& run) {
    ForEachLine(s, [&](int64_t at) {
      const double all = length(run.x[0] + at);
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner)
        run.y[0][j] = all > 0 ? static_cast<float>(run.x[0][j] / all) : 0.0f;
    });
  };
  const auto backward = [s, squares, length](const GradientRun& run) {
    ForEachLine(s, [&](int64_t at) {
      const double all = length(run.x[0] + at);
      double sum = 0;
      for (int64_t j = at; j < at + s.size * s.inner; j += s.inner)
        sum += static_cast<double>(run.dy[0][j]) * run.y[0][j];
      for (int64_t j = at; all > 0 && j < at + s.size * s.inner; j += s.inner) {
        const float x = run.x[0][j];
        const double t = squares ? run.y[0][j] : (x > 0) - (x < 0);
        run.dx[0][j] += static_cast<float>((run.dy[0][j] - t * sum) / all);
      }
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

}  // namespace

extern const GradientDef kGradientLogSoftmax, kGradientLpNormalization, kGradientReduceL1,
    kGradientReduceL2, kGradientReduceMax, kGradientReduceMean, kGradientReduceMin,
    kGradientReduceSum, kGradientReduceSumSquare, kGradientSoftmax;
const GradientDef kGradientLogSoftmax = {.op = "LogSoftmax", .bind = BindLogSoftmax};
const GradientDef kGradientLpNormalization = {.op = "LpNormalization", .bind = BindLpNormalization};
const GradientDef kGradientReduceL1 = {.op = "ReduceL1", .bind = BindReduceL1};
const GradientDef kGradientReduceL2 = {.op = "ReduceL2", .bind = BindReduceL2};
const GradientDef kGradientReduceMax = {.op = "ReduceMax", .bind = BindReduceMax};
const GradientDef kGradientReduceMean = {.op = "ReduceMean", .bind = BindReduceMean};
const GradientDef kGradientReduceMin = {.op = "ReduceMin", .bind = BindReduceMin};
const GradientDef kGradientReduceSum = {.op = "ReduceSum", .bind = BindReduceSum};
const GradientDef kGradientReduceSumSquare = {.op = "ReduceSumSquare", .bind = BindReduceSumSquare};
const GradientDef kGradientSoftmax = {.op = "Softmax", .bind = BindSoftmax};

}  // namespace evoq
