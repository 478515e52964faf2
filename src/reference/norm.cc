// Normalizations. Sums over contiguous values are SumF and SumSquaresF (kernels/math/math.h); sums
// over channels-last planes and over other axes are sequential in index order from 0. Every written
// operation rounds to float32 once. In float64 the same formulas, all sums in index order.
#include <cmath>

#include "base/budget_scope.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- BatchNormalization(x, scale, bias, mean, var): y = x * a + (bias - mean * a), a = scale /
// sqrt(var + epsilon).

EvalResult EvaluateBatchNorm(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Tensor& x = args.inputs[0];
    const AxisSplit split = SplitAt(x.sizes(), 1);
    const T epsilon = args.node.attrs.Float("epsilon", 1e-5f);
    const auto at = [&](size_t input, int64_t c) { return args.inputs[input].data<T>()[c]; };
    Tensor y = Tensor::Allocate(x.type());
    for (int64_t i = 0; i < x.elements(); ++i) {
      const int64_t c = i / split.inner % split.size;
      const T a = at(1, c) / std::sqrt(at(4, c) + epsilon);
      y.mutable_data<T>()[i] = x.data<T>()[i] * a + (at(2, c) - at(3, c) * a);
    }
    return One(std::move(y));
  });
}

// ---- InstanceNormalization(x, scale, bias): per plane of n values, with m = sum(x) / n and off =
// sum(x - m) / n, what the first sum's roundings made of the mean: mean = m + off, var =
// max(sum((x - m)^2) / n - off^2, 0), y = (x - mean) * (scale / sqrt(var + epsilon)) + bias; sums
// are sequential in spatial index order.

EvalResult EvaluateInstanceNorm(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Tensor& x = args.inputs[0];
    const AxisSplit split = SplitAt(x.sizes(), 1);
    const T epsilon = args.node.attrs.Float("epsilon", 1e-5f), count = static_cast<T>(split.inner);
    Tensor y = Tensor::Allocate(x.type());
    for (int64_t plane = 0; plane < split.outer * split.size; ++plane) {
      const int64_t c = plane % split.size;
      const T* in = x.data<T>() + plane * split.inner;
      T* out = y.mutable_data<T>() + plane * split.inner;
      T sum = 0, rest = 0, squares = 0;
      for (int64_t i = 0; i < split.inner; ++i) sum += in[i];
      const T first = sum / count;
      for (int64_t i = 0; i < split.inner; ++i) {
        const T d = in[i] - first;
        rest += d;
        squares += d * d;
      }
      const T off = rest / count, mean = first + off, difference = squares / count - off * off,
              variance = difference > 0 ? difference : 0 * difference;  // NaN stays
      const T a = args.inputs[1].data<T>()[c] / std::sqrt(variance + epsilon);
      const T bias = args.inputs[2].data<T>()[c];
      for (int64_t i = 0; i < split.inner; ++i) out[i] = (in[i] - mean) * a + bias;
    }
    return One(std::move(y));
  });
}

// mean and 1 / sqrt(var + epsilon) of n contiguous values.
template <typename T>
struct Moments {
  T mean, inverse;
};
template <typename T>
Moments<T> MomentsOf(const T* x, int64_t n, T epsilon) {
  const T count = static_cast<T>(n);
  const T mean = SumOf(x, n) / count;
  return {mean, 1 / std::sqrt(SumSquaresOf(x, n, mean) / count + epsilon)};
}

// ---- LayerNormalization(x, scale, bias?) -> y, mean, inverse deviation, over the axes from `axis`
// on: y = (x - mean) * inverse * scale + bias.

EvalResult EvaluateLayerNorm(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Tensor& x = args.inputs[0];
    const std::vector<int64_t> sizes = x.sizes();
    EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", -1), x.shape().rank()));
    const std::vector<int64_t> inner(sizes.begin() + axis, sizes.end());
    Shape moments_shape = x.shape();
    for (int i = axis; i < moments_shape.rank(); ++i) moments_shape[i] = 1;
    Tensor y = Tensor::Allocate(x.type());
    Tensor mean = Tensor::Allocate(TensorType(DType::kFloat32, moments_shape)),
           inverse = mean.Clone();
    const int64_t outer = mean.elements(), n = outer == 0 ? 0 : x.elements() / outer;
    const T epsilon = args.node.attrs.Float("epsilon", 1e-5f);
    const Tensor none = Tensor::Scalar(0.0f);
    const Tensor& bias = args.has(2) ? args.inputs[2] : none;
    for (int64_t o = 0; o < outer; ++o) {
      const T* in = x.data<T>() + o * n;
      T* out = y.mutable_data<T>() + o * n;
      const Moments<T> m = MomentsOf<T>(in, n, epsilon);
      mean.mutable_data<float>()[o] = static_cast<float>(m.mean);
      inverse.mutable_data<float>()[o] = static_cast<float>(m.inverse);
      ForEachIndex<2>(
          inner,
          {BroadcastStrides(args.inputs[1].sizes(), inner), BroadcastStrides(bias.sizes(), inner)},
          [&](int64_t i, const auto& offset) {
            out[i] = (in[i] - m.mean) * m.inverse * args.inputs[1].data<T>()[offset[0]];
            if (args.has(2)) out[i] = out[i] + bias.data<T>()[offset[1]];
          });
    }
    return std::vector<Tensor>{std::move(y), std::move(mean), std::move(inverse)};
  });
}

// ---- RMSNormalization(x, scale), over the axes from `axis` on: y = x * (1 / sqrt(SumF(x^2) / n +
// epsilon)) * scale.

EvalResult EvaluateRmsNorm(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Tensor &x = args.inputs[0], &scale = args.inputs[1];
    const std::vector<int64_t> sizes = x.sizes();
    EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", -1), x.shape().rank()));
    const std::vector<int64_t> inner(sizes.begin() + axis, sizes.end());
    const int64_t n = *Shape(inner).elements();
    const T epsilon = args.node.attrs.Float("epsilon", 1e-5f);
    Tensor y = Tensor::Allocate(x.type());
    for (int64_t start = 0; start < x.elements(); start += n) {
      const T* in = x.data<T>() + start;
      const T inverse = 1 / std::sqrt(SumSquaresOf(in, n, T{0}) / static_cast<T>(n) + epsilon);
      ForEachIndex<1>(
          inner, {BroadcastStrides(scale.sizes(), inner)}, [&](int64_t i, const auto& offset) {
            y.mutable_data<T>()[start + i] = in[i] * inverse * scale.data<T>()[offset[0]];
          });
    }
    return One(std::move(y));
  });
}

// ---- GroupNormalization(x, scale, bias): moments over C / num_groups channels and all of space,
// per-channel scale: y = (x - mean) * inverse * scale[c] + bias[c].

EvalResult EvaluateGroupNorm(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Tensor& x = args.inputs[0];
    const AxisSplit split = SplitAt(x.sizes(), 1);
    const int64_t groups = args.node.attrs.Int("num_groups"), n = split.size / groups * split.inner;
    const T epsilon = args.node.attrs.Float("epsilon", 1e-5f);
    Tensor y = Tensor::Allocate(x.type());
    for (int64_t g = 0; g < split.outer * groups; ++g) {
      const Moments<T> m = MomentsOf<T>(x.data<T>() + g * n, n, epsilon);
      for (int64_t i = g * n; i < (g + 1) * n; ++i) {
        const int64_t c = i / split.inner % split.size;
        y.mutable_data<T>()[i] =
            (x.data<T>()[i] - m.mean) * m.inverse * args.inputs[1].data<T>()[c] +
            args.inputs[2].data<T>()[c];
      }
    }
    return One(std::move(y));
  });
}

// ---- MeanVarianceNormalization(x): y = (x - mean) / (sqrt(var) + 1e-9) over `axes`, sequential
// sums.

EvalResult EvaluateMeanVariance(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Tensor& x = args.inputs[0];
    EVOQ_ASSIGN(const std::vector<int> axes,
                NormalizeAxes(args.node.attrs.Ints("axes", {0, 2, 3}), x.shape().rank()));
    const std::vector<int64_t> sizes = x.sizes();
    std::vector<int64_t> kept = sizes;
    for (int axis : axes) kept[axis] = 1;
    const std::vector<int64_t> to_group = BroadcastStrides(kept, sizes);
    const int64_t groups = *Shape(kept).elements();
    const T count = static_cast<T>(groups == 0 ? 0 : x.elements() / groups);
    std::vector<T> mean(groups), deviation(groups);
    const auto each = [&](const auto& body) {
      ForEachIndex<1>(sizes, {to_group},
                      [&](int64_t i, const auto& offset) { body(i, offset[0]); });
    };
    each([&](int64_t i, int64_t g) { mean[g] += x.data<T>()[i]; });
    for (T& m : mean) m = m / count;
    each([&](int64_t i, int64_t g) {
      const T difference = x.data<T>()[i] - mean[g];
      deviation[g] += difference * difference;
    });
    for (T& d : deviation) d = std::sqrt(d / count) + static_cast<T>(1e-9f);
    Tensor y = Tensor::Allocate(x.type());
    each([&](int64_t i, int64_t g) {
      y.mutable_data<T>()[i] = (x.data<T>()[i] - mean[g]) / deviation[g];
    });
    return One(std::move(y));
  });
}

// ---- LRN(x): y = x / (bias + alpha / size * sum)^beta, the sum of squares over `size` channels
// around c, sequential.

EvalResult EvaluateLrn(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Attrs& attrs = args.node.attrs;
    const Tensor& x = args.inputs[0];
    const AxisSplit split = SplitAt(x.sizes(), 1);
    const int64_t size = attrs.Int("size"), before = (size - 1) / 2, after = size - 1 - before;
    const T alpha = attrs.Float("alpha", 1e-4f) / static_cast<T>(size);
    const T beta = attrs.Float("beta", 0.75f), bias = attrs.Float("bias", 1.0f);
    EVOQ_TRY(
        SpendWork({x.elements(), std::min(std::max<int64_t>(size, 1), split.size)}, "the sums"));
    Tensor y = Tensor::Allocate(x.type());
    for (int64_t i = 0; i < x.elements(); ++i) {
      const int64_t c = i / split.inner % split.size;
      T sum = 0;
      for (int64_t k = std::max<int64_t>(0, c - before); k < split.size && k - c <= after; ++k) {
        const T v = x.data<T>()[i + (k - c) * split.inner];
        sum += v * v;
      }
      y.mutable_data<T>()[i] = x.data<T>()[i] / PowOf(bias + alpha * sum, beta);
    }
    return One(std::move(y));
  });
}

// ---- LpNormalization(x): y = x / (sum |x|^p)^(1/p) along `axis`, p 1 or 2; 0 where the norm is 0.

EvalResult EvaluateLpNorm(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Tensor& x = args.inputs[0];
    EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", -1), x.shape().rank()));
    const AxisSplit split = SplitAt(x.sizes(), axis);
    const bool squares = args.node.attrs.Int("p", 2) == 2;
    Tensor y = Tensor::Allocate(x.type());
    std::vector<T> terms(split.size);
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const int64_t base = o * split.size * split.inner + i;
        for (int64_t k = 0; k < split.size; ++k) {
          const T v = x.data<T>()[base + k * split.inner];
          terms[k] = squares ? v * v : std::fabs(v);
        }
        const T sum = SumAlong<T>(terms, split.inner == 1), norm = squares ? std::sqrt(sum) : sum;
        for (int64_t k = 0; k < split.size; ++k) {
          const int64_t at = base + k * split.inner;
          y.mutable_data<T>()[at] = norm == 0 ? 0 : x.data<T>()[at] / norm;
        }
      }
    }
    return One(std::move(y));
  });
}

}  // namespace

namespace reference {

extern const Definition kBatchNormalization = {.name = "BatchNormalization",
                                               .evaluate = EvaluateBatchNorm};
extern const Definition kGroupNormalization = {.name = "GroupNormalization",
                                               .evaluate = EvaluateGroupNorm};
extern const Definition kInstanceNormalization = {.name = "InstanceNormalization",
                                                  .evaluate = EvaluateInstanceNorm};
extern const Definition kLRN = {.name = "LRN", .evaluate = EvaluateLrn};
extern const Definition kLayerNormalization = {.name = "LayerNormalization",
                                               .evaluate = EvaluateLayerNorm};
extern const Definition kLpNormalization = {.name = "LpNormalization", .evaluate = EvaluateLpNorm};
extern const Definition kMeanVarianceNormalization = {.name = "MeanVarianceNormalization",
                                                      .evaluate = EvaluateMeanVariance};
extern const Definition kRMSNormalization = {.name = "RMSNormalization",
                                             .evaluate = EvaluateRmsNorm};

}  // namespace reference
}  // namespace evoq
