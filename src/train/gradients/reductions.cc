// Softmax and LogSoftmax along an axis, means and sums over axes.
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

// ---- ReduceMean, ReduceSum(x, axes?)

Result<BoundGradient> BindReduce(const GradientArgs& args, bool mean) {
  std::vector<int64_t> axes;
  const bool given = args.x.size() > 1 && args.x[1].dtype != DType::kUndefined;
  if (given) {
    if (args.constants[1] == nullptr) return Unsupported("axes that are no constants");
    EVOQ_ASSIGN(axes, ToInt64s(*args.constants[1]));
  }
  const std::vector<int64_t> sizes = args.x[0].shape.sizes();
  EVOQ_ASSIGN(const std::vector<bool> reduced,
              ReducedAxes(args.node, given ? &axes : nullptr, static_cast<int>(sizes.size())));
  std::vector<int64_t> strides(sizes.size(), 0);  // of y, by x's axes
  int64_t kept = 1, count = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    (reduced[d] ? count : kept) *= sizes[d];
    if (!reduced[d]) strides[d] = kept / std::max<int64_t>(sizes[d], 1);
  }
  // Calls body(i, where element i of x goes in y).
  const auto each = [sizes, strides, n = *args.x[0].shape.elements()](const auto& body) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) at += rest % sizes[d] * strides[d];
      body(i, at);
    }
  };
  const int64_t divisor = mean ? count : 1;
  const float part = 1 / static_cast<float>(divisor);
  const auto forward = [each, kept, divisor](const GradientRun& run) {
    std::vector<double> sums(static_cast<size_t>(kept), 0);
    each([&](int64_t i, int64_t at) { sums[at] += run.x[0][i]; });
    for (int64_t i = 0; i < kept; ++i)
      run.y[0][i] = static_cast<float>(sums[i] / static_cast<double>(divisor));
  };
  const auto backward = [each, part](const GradientRun& run) {
    each([&](int64_t i, int64_t at) { run.dx[0][i] += run.dy[0][at] * part; });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

Result<BoundGradient> BindReduceMean(const GradientArgs& args) { return BindReduce(args, true); }
Result<BoundGradient> BindReduceSum(const GradientArgs& args) { return BindReduce(args, false); }

}  // namespace

extern const GradientDef kGradientLogSoftmax, kGradientReduceMean, kGradientReduceSum,
    kGradientSoftmax;
const GradientDef kGradientLogSoftmax = {.op = "LogSoftmax", .bind = BindLogSoftmax};
const GradientDef kGradientReduceMean = {.op = "ReduceMean", .bind = BindReduceMean};
const GradientDef kGradientReduceSum = {.op = "ReduceSum", .bind = BindReduceSum};
const GradientDef kGradientSoftmax = {.op = "Softmax", .bind = BindSoftmax};

}  // namespace evoq
