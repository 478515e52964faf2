// Max, Mean, Min and Sum of any number of values, with ONNX's broadcasting: an operand's gradient
// is summed over the axes along which it was repeated.
#include "ops/util.h"
#include "train/gradient.h"

namespace evoq {
namespace {

// The axes of y, and where the operands go along them.
struct Operands {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;
  int64_t elements = 0;

  // Calls body(element of y, element of each operand).
  template <typename Body>
  void ForEach(const Body& body) const {
    std::vector<int64_t> at(strides.size());
    for (int64_t i = 0; i < elements; ++i) {
      for (size_t k = 0; k < strides.size(); ++k) {
        int64_t rest = i;
        at[k] = 0;
        for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d])
          at[k] += rest % sizes[d] * strides[k][d];
      }
      body(i, at);
    }
  }
};

Operands OperandsOf(const GradientArgs& args) {
  Operands out{.sizes = args.y[0].shape.sizes(), .elements = *args.y[0].shape.elements()};
  for (const TensorType& x : args.x)
    out.strides.push_back(BroadcastStrides(x.shape.sizes(), out.sizes));
  return out;
}

BoundGradient SumOf(const GradientArgs& args, double divisor) {
  const Operands s = OperandsOf(args);
  const auto forward = [s, divisor](const GradientRun& run) {
    s.ForEach([&](int64_t i, const std::vector<int64_t>& at) {
      double sum = 0;
      for (size_t k = 0; k < at.size(); ++k) sum += run.x[k][at[k]];
      run.y[0][i] = static_cast<float>(sum / divisor);
    });
  };
  const auto backward = [s, part = static_cast<float>(1 / divisor)](const GradientRun& run) {
    s.ForEach([&](int64_t i, const std::vector<int64_t>& at) {
      for (size_t k = 0; k < at.size(); ++k) {
        if (run.dx[k] != nullptr) run.dx[k][at[k]] += run.dy[0][i] * part;
      }
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

// The first of the operands that are the largest (smallest) has the gradient.
template <typename Before>
BoundGradient ExtremeOf(const GradientArgs& args, const Before& before) {
  const Operands s = OperandsOf(args);
  const auto best = [before](const GradientRun& run, const std::vector<int64_t>& at) {
    size_t found = 0;
    for (size_t k = 1; k < at.size(); ++k) {
      if (before(run.x[k][at[k]], run.x[found][at[found]])) found = k;
    }
    return found;
  };
  const auto forward = [s, best](const GradientRun& run) {
    s.ForEach([&](int64_t i, const std::vector<int64_t>& at) {
      const size_t k = best(run, at);
      run.y[0][i] = run.x[k][at[k]];
    });
  };
  const auto backward = [s, best](const GradientRun& run) {
    s.ForEach([&](int64_t i, const std::vector<int64_t>& at) {
      const size_t k = best(run, at);
      if (run.dx[k] != nullptr) run.dx[k][at[k]] += run.dy[0][i];
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

Result<BoundGradient> BindMax(const GradientArgs& args) {
  return ExtremeOf(args, [](float a, float b) { return a > b; });
}
Result<BoundGradient> BindMean(const GradientArgs& args) {
  return SumOf(args, static_cast<double>(args.x.size()));
}
Result<BoundGradient> BindMin(const GradientArgs& args) {
  return ExtremeOf(args, [](float a, float b) { return a < b; });
}
Result<BoundGradient> BindSum(const GradientArgs& args) { return SumOf(args, 1); }

constexpr uint32_t kAll = ~uint32_t{0};

}  // namespace

extern const GradientDef kGradientMax, kGradientMean, kGradientMin, kGradientSum;
const GradientDef kGradientMax = {.op = "Max", .differentiable = kAll, .bind = BindMax};
const GradientDef kGradientMean = {.op = "Mean", .differentiable = kAll, .bind = BindMean};
const GradientDef kGradientMin = {.op = "Min", .differentiable = kAll, .bind = BindMin};
const GradientDef kGradientSum = {.op = "Sum", .differentiable = kAll, .bind = BindSum};

}  // namespace evoq
