// float64 is computed in float64: each result against sums and functions in long double, to 1e-14.
// Computed in float32 they would be off by 1e-8.
#include <functional>
#include <map>

#include "reference/float64_test_util.h"
#include "reference/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

TEST(Float64, MatMulAndGemm) {
  const Tensor a = Doubles({5, 37}, 1), b = Doubles({37, 3}, 2), c = Doubles({3}, 3);
  std::vector<Real> product, gemm;
  for (int m = 0; m < 5; ++m) {
    for (int n = 0; n < 3; ++n) {
      Real sum = 0;
      for (int k = 0; k < 37; ++k) sum += static_cast<Real>(D(a)[m * 37 + k]) * D(b)[k * 3 + n];
      product.push_back(sum);
      gemm.push_back(0.5L * sum + 2.0L * D(c)[n]);
    }
  }
  ExpectNear(Eval(NodeOf("MatMul", 2), {a, b}), product, "MatMul");
  ExpectNear(Eval(NodeOf("Gemm", 3, WithAttrs({{"alpha", 0.5f}, {"beta", 2.0f}})), {a, b, c}), gemm,
             "Gemm");
  ExpectNear(Eval(NodeOf("Einsum", 2, WithAttrs({{"equation", "ij,jk->ik"}})), {a, b}), product,
             "Einsum");
  for (Real& v : product) v = std::max<Real>(v, 0);
  ExpectNear(Eval(NodeOf("MatMul", 2, WithAttrs({{"activation", "Relu"}})), {a, b}), product,
             "MatMul with Relu");
}

TEST(Float64, Convolutions) {
  const Tensor x = Doubles({1, 3, 5, 6}, 1), w = Doubles({4, 3, 3, 2}, 2), bias = Doubles({4}, 3);
  std::vector<Real> want;
  for (int m = 0; m < 4; ++m) {
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 5; ++j) {
        Real sum = D(bias)[m];
        for (int c = 0; c < 3; ++c) {
          for (int p = 0; p < 3; ++p) {
            for (int q = 0; q < 2; ++q) {
              if (i + p - 1 < 0 || i + p - 1 >= 5) continue;
              sum += static_cast<Real>(D(x)[(c * 5 + i + p - 1) * 6 + j + q]) *
                     D(w)[((m * 3 + c) * 3 + p) * 2 + q];
            }
          }
        }
        want.push_back(sum);
      }
    }
  }
  ExpectNear(Eval(NodeOf("Conv", 3, WithAttrs({{"pads", Ints{1, 0, 1, 0}}})), {x, w, bias}), want,
             "Conv");

  // y[m, o] = sum over c and i + k = o of x[c, i] * w[c, m, k]
  const Tensor line = Doubles({1, 2, 4}, 4), taps = Doubles({2, 3, 3}, 5);
  std::vector<Real> transposed(18, 0);
  for (int m = 0; m < 3; ++m) {
    for (int c = 0; c < 2; ++c) {
      for (int i = 0; i < 4; ++i) {
        for (int k = 0; k < 3; ++k)
          transposed[m * 6 + i + k] +=
              static_cast<Real>(D(line)[c * 4 + i]) * D(taps)[(c * 3 + m) * 3 + k];
      }
    }
  }
  ExpectNear(Eval(NodeOf("ConvTranspose", 2), {line, taps}), transposed, "ConvTranspose");
}

TEST(Float64, SoftmaxAndItsLogarithm) {
  for (int64_t axis : {0, 1}) {
    const Tensor x = Doubles({7, 7}, 6);
    std::vector<Real> soft(49), log(49);
    for (int r = 0; r < 7; ++r) {
      const auto at = [&](int k) { return axis == 1 ? r * 7 + k : k * 7 + r; };
      Real sum = 0;
      for (int k = 0; k < 7; ++k) sum += std::exp(static_cast<Real>(D(x)[at(k)]));
      for (int k = 0; k < 7; ++k) {
        soft[at(k)] = std::exp(static_cast<Real>(D(x)[at(k)])) / sum;
        log[at(k)] = D(x)[at(k)] - std::log(sum);
      }
    }
    ExpectNear(Eval(NodeOf("Softmax", 1, WithAttrs({{"axis", axis}})), {x}), soft, "Softmax");
    ExpectNear(Eval(NodeOf("LogSoftmax", 1, WithAttrs({{"axis", axis}})), {x}), log, "LogSoftmax");
  }
}

TEST(Float64, Reductions) {
  const Tensor x = Doubles({2, 33}, 7);
  const Tensor positive = Eval(NodeOf("Abs", 1), {x});
  const std::map<std::string, std::function<Real(const std::vector<Real>&)>> rows = {
      {"ReduceSum",
       [](const auto& v) {
         Real s = 0;
         for (Real e : v) s += e;
         return s;
       }},
      {"ReduceMean",
       [](const auto& v) {
         Real s = 0;
         for (Real e : v) s += e;
         return s / v.size();
       }},
      {"ReduceL1",
       [](const auto& v) {
         Real s = 0;
         for (Real e : v) s += std::fabs(e);
         return s;
       }},
      {"ReduceL2",
       [](const auto& v) {
         Real s = 0;
         for (Real e : v) s += e * e;
         return std::sqrt(s);
       }},
      {"ReduceSumSquare",
       [](const auto& v) {
         Real s = 0;
         for (Real e : v) s += e * e;
         return s;
       }},
      {"ReduceProd",
       [](const auto& v) {
         Real s = 1;
         for (Real e : v) s *= e;
         return s;
       }},
      {"ReduceLogSum",
       [](const auto& v) {
         Real s = 0;
         for (Real e : v) s += e;
         return std::log(s);
       }},
      {"ReduceLogSumExp", [](const auto& v) {
         Real s = 0;
         for (Real e : v) s += std::exp(e);
         return std::log(s);
       }}};
  for (const auto& [op, of] : rows) {
    std::vector<Real> want;
    for (int r = 0; r < 2; ++r)
      want.push_back(of(std::vector<Real>(D(positive) + r * 33, D(positive) + (r + 1) * 33)));
    ExpectNear(Eval(NodeOf(op, 2), {positive, Tensor::FromValues<int64_t>(Shape{1}, {1})}), want,
               op);
  }
}

// mean and variance of `count` values `step` apart.
std::pair<Real, Real> Moments(const double* x, int count, int step) {
  Real mean = 0, variance = 0;
  for (int i = 0; i < count; ++i) mean += x[i * step];
  mean /= count;
  for (int i = 0; i < count; ++i) variance += (x[i * step] - mean) * (x[i * step] - mean);
  return {mean, variance / count};
}

TEST(Float64, Normalizations) {
  const Real epsilon = static_cast<Real>(1e-5f);
  const Tensor x = Doubles({2, 4, 9}, 8), scale = Doubles({9}, 9), bias = Doubles({9}, 10);
  std::vector<Real> layer, rms;
  for (int r = 0; r < 8; ++r) {
    const auto [mean, variance] = Moments(D(x) + r * 9, 9, 1);
    Real squares = 0;
    for (int i = 0; i < 9; ++i) squares += static_cast<Real>(D(x)[r * 9 + i]) * D(x)[r * 9 + i];
    for (int i = 0; i < 9; ++i) {
      layer.push_back((D(x)[r * 9 + i] - mean) / std::sqrt(variance + epsilon) * D(scale)[i] +
                      D(bias)[i]);
      rms.push_back(D(x)[r * 9 + i] / std::sqrt(squares / 9 + epsilon) * D(scale)[i]);
    }
  }
  ExpectNear(Eval(NodeOf("LayerNormalization", 3), {x, scale, bias}), layer, "LayerNormalization");
  ExpectNear(Eval(NodeOf("RMSNormalization", 2), {x, scale}), rms, "RMSNormalization");

  const Tensor a = Doubles({4}, 11), b = Doubles({4}, 12), mu = Doubles({4}, 13),
               var = Eval(NodeOf("Abs", 1), {Doubles({4}, 14)});
  std::vector<Real> batch, instance, group, whole, lrn, lp;
  for (int r = 0; r < 8; ++r) {
    const int c = r % 4;
    const auto [mean, variance] = Moments(D(x) + r * 9, 9, 1);
    const auto [group_mean, group_variance] = Moments(D(x) + r / 2 * 18, 18, 1);
    Real both = 0, squares = 0;  // moments of a channel over both images
    for (int i = 0; i < 18; ++i) both += D(x)[(i / 9 * 4 + c) * 9 + i % 9];
    for (int i = 0; i < 18; ++i)
      squares += (D(x)[(i / 9 * 4 + c) * 9 + i % 9] - both / 18) *
                 (D(x)[(i / 9 * 4 + c) * 9 + i % 9] - both / 18);
    for (int i = 0; i < 9; ++i) {
      const Real v = D(x)[r * 9 + i];
      batch.push_back((v - D(mu)[c]) / std::sqrt(D(var)[c] + epsilon) * D(a)[c] + D(b)[c]);
      instance.push_back((v - mean) / std::sqrt(variance + epsilon) * D(a)[c] + D(b)[c]);
      group.push_back((v - group_mean) / std::sqrt(group_variance + epsilon) * D(a)[c] + D(b)[c]);
      whole.push_back((v - both / 18) / (std::sqrt(squares / 18) + static_cast<Real>(1e-9f)));
      Real near = 0, norm = 0;
      for (int k = std::max(0, c - 1); k <= std::min(3, c + 1); ++k)
        near += static_cast<Real>(D(x)[(r / 4 * 4 + k) * 9 + i]) * D(x)[(r / 4 * 4 + k) * 9 + i];
      for (int k = 0; k < 9; ++k) norm += static_cast<Real>(D(x)[r * 9 + k]) * D(x)[r * 9 + k];
      lrn.push_back(v / std::pow(1 + static_cast<Real>(1e-4f) / 3 * near, 0.75L));
      lp.push_back(v / std::sqrt(norm));
    }
  }
  ExpectNear(Eval(NodeOf("BatchNormalization", 5), {x, a, b, mu, var}), batch,
             "BatchNormalization");
  ExpectNear(Eval(NodeOf("InstanceNormalization", 3), {x, a, b}), instance,
             "InstanceNormalization");
  ExpectNear(
      Eval(NodeOf("GroupNormalization", 3, WithAttrs({{"num_groups", int64_t{2}}})), {x, a, b}),
      group, "GroupNormalization");
  ExpectNear(Eval(NodeOf("MeanVarianceNormalization", 1, WithAttrs({{"axes", Ints{0, 2}}})), {x}),
             whole, "MeanVarianceNormalization");
  ExpectNear(Eval(NodeOf("LRN", 1, WithAttrs({{"size", int64_t{3}}})), {x}), lrn, "LRN");
  ExpectNear(Eval(NodeOf("LpNormalization", 1), {x}), lp, "LpNormalization");
  // Parameters in float32 beside a float64 input: their values are what they are, the arithmetic is
  // float64.
  std::vector<Tensor> mixed = {x};
  for (const Tensor& t : {a, b, mu, var}) {
    std::vector<float> narrow(D(t), D(t) + 4);
    mixed.push_back(Floats({4}, narrow));
  }
  std::vector<Real> want;
  for (int i = 0; i < 72; ++i) {
    const auto at = [&](int input) {
      return static_cast<Real>(mixed[static_cast<size_t>(input)].data<float>()[i / 9 % 4]);
    };
    want.push_back((D(x)[i] - at(3)) / std::sqrt(at(4) + epsilon) * at(1) + at(2));
  }
  ExpectNear(Eval(NodeOf("BatchNormalization", 5), mixed), want,
             "BatchNormalization with float32 parameters");
}

TEST(Float64, Pooling) {
  const Tensor x = Doubles({1, 2, 8}, 15);
  std::vector<Real> average, lp, global, global_lp;
  for (int c = 0; c < 2; ++c) {
    Real all = 0, squares = 0;
    for (int o = 0; o < 6; ++o) {
      Real sum = 0, square = 0;
      for (int k = 0; k < 3; ++k)
        sum += D(x)[c * 8 + o + k],
            square += static_cast<Real>(D(x)[c * 8 + o + k]) * D(x)[c * 8 + o + k];
      average.push_back(sum / 3), lp.push_back(std::sqrt(square));
    }
    for (int i = 0; i < 8; ++i)
      all += D(x)[c * 8 + i], squares += static_cast<Real>(D(x)[c * 8 + i]) * D(x)[c * 8 + i];
    global.push_back(all / 8), global_lp.push_back(std::sqrt(squares));
  }
  ExpectNear(Eval(NodeOf("AveragePool", 1, WithAttrs({{"kernel_shape", Ints{3}}})), {x}), average,
             "AveragePool");
  ExpectNear(Eval(NodeOf("LpPool", 1, WithAttrs({{"kernel_shape", Ints{3}}})), {x}), lp, "LpPool");
  ExpectNear(Eval(NodeOf("GlobalAveragePool", 1), {x}), global, "GlobalAveragePool");
  ExpectNear(Eval(NodeOf("GlobalLpPool", 1), {x}), global_lp, "GlobalLpPool");
  const Tensor largest = Eval(NodeOf("GlobalMaxPool", 1), {x});
  for (int c = 0; c < 2; ++c)
    EXPECT_EQ(D(largest)[c], *std::max_element(D(x) + c * 8, D(x) + c * 8 + 8));
}

// From 3 to 7 places with align_corners: place o lies at o / 3 of the input.
TEST(Float64, LinearResize) {
  const Tensor x = Doubles({1, 1, 3}, 16);
  std::vector<Real> want;
  for (int o = 0; o < 7; ++o) {
    const Real place = o / 3.0L, part = place - std::floor(place);
    const int left = o / 3, right = std::min(2, left + 1);
    want.push_back((1 - part) * D(x)[left] + part * D(x)[right]);
  }
  const Node node =
      NodeOf("Resize", 4,
             WithAttrs({{"mode", "linear"}, {"coordinate_transformation_mode", "align_corners"}}));
  ExpectNear(Eval(node, {x, Tensor(), Tensor(), Tensor::FromValues<int64_t>(Shape{3}, {1, 1, 7})}),
             want, "Resize");
}

TEST(Float64, FunctionsOfOneValue) {
  const auto sigmoid = [](Real x) { return 1 / (1 + std::exp(-x)); };
  const auto softplus = [](Real x) { return std::log(1 + std::exp(x)); };
  const auto clamp = [](Real x, Real low, Real high) { return std::min(std::max(x, low), high); };
  const Real alpha = static_cast<Real>(0.3f), beta = static_cast<Real>(0.2f);
  const Real selu_gamma = static_cast<Real>(1.05070102214813232421875f);
  const std::map<std::string, std::function<Real(Real)>> functions = {
      {"Acos", [](Real x) { return std::acos(x); }},
      {"Asin", [](Real x) { return std::asin(x); }},
      {"Asinh", [](Real x) { return std::asinh(x); }},
      {"Atan", [](Real x) { return std::atan(x); }},
      {"Atanh", [](Real x) { return std::atanh(x); }},
      {"Celu", [&](Real x) { return x < 0 ? alpha * (std::exp(x / alpha) - 1) : x; }},
      {"Cos", [](Real x) { return std::cos(x); }},
      {"Cosh", [](Real x) { return std::cosh(x); }},
      {"Elu", [&](Real x) { return x < 0 ? alpha * (std::exp(x) - 1) : x; }},
      {"Erf", [](Real x) { return std::erf(x); }},
      {"Exp", [](Real x) { return std::exp(x); }},
      {"Gelu", [](Real x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0L))); }},
      {"HardSigmoid", [&](Real x) { return clamp(alpha * x + beta, 0, 1); }},
      {"HardSwish", [&](Real x) { return x * clamp(x / 6 + 0.5L, 0, 1); }},
      {"LeakyRelu", [&](Real x) { return x < 0 ? alpha * x : x; }},
      {"Mish", [&](Real x) { return x * std::tanh(softplus(x)); }},
      {"Neg", [](Real x) { return -x; }},
      {"Reciprocal", [](Real x) { return 1 / x; }},
      {"Relu", [](Real x) { return std::max<Real>(x, 0); }},
      {"Selu", [&](Real x) { return selu_gamma * (x > 0 ? x : alpha * (std::exp(x) - 1)); }},
      {"Sigmoid", sigmoid},
      {"Sin", [](Real x) { return std::sin(x); }},
      {"Sinh", [](Real x) { return std::sinh(x); }},
      {"Softplus", softplus},
      {"Softsign", [](Real x) { return x / (1 + std::fabs(x)); }},
      {"Swish", [&](Real x) { return x * sigmoid(alpha * x); }},
      {"Tan", [](Real x) { return std::tan(x); }},
      {"Tanh", [](Real x) { return std::tanh(x); }},
      {"ThresholdedRelu", [&](Real x) { return x > alpha ? x : 0; }}};
  const Tensor x = Doubles({40}, 17);
  for (const auto& [op, of] : functions) {
    std::vector<Real> want;
    for (int i = 0; i < 40; ++i) want.push_back(of(D(x)[i]));
    ExpectNear(
        Eval(NodeOf(op, 1,
                    WithAttrs({{"alpha", 0.3f}, {"beta", op == "HardSigmoid" ? 0.2f : 0.0f}})),
             {x}),
        want, op);
  }
  const Tensor positive = Eval(NodeOf("Exp", 1), {x});
  std::vector<Real> log, root, acosh;
  for (int i = 0; i < 40; ++i) {
    log.push_back(std::log(static_cast<Real>(D(positive)[i])));
    root.push_back(std::sqrt(static_cast<Real>(D(positive)[i])));
  }
  ExpectNear(Eval(NodeOf("Log", 1), {positive}), log, "Log");
  ExpectNear(Eval(NodeOf("Sqrt", 1), {positive}), root, "Sqrt");
  const Tensor one = Tensor::FromValues<double>(Shape{1}, {1.3});
  ExpectNear(Eval(NodeOf("Acosh", 1), {one}), {std::acosh(static_cast<Real>(1.3))}, "Acosh");
  const Tensor added = Eval(NodeOf("Add", 2, WithAttrs({{"activation", "Silu"}})), {x, one});
  std::vector<Real> sums;
  for (int i = 0; i < 40; ++i)
    sums.push_back((D(x)[i] + static_cast<Real>(1.3)) * sigmoid(D(x)[i] + static_cast<Real>(1.3)));
  ExpectNear(added, sums, "Add with Silu");
}

}  // namespace
}  // namespace evoq
