// Algorithms of rounding against brute force and against the papers' own formulas.
#include "quant/layer_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/gemm/blocks/scale_steps.h"
#include "passes/qdq_bias.h"
#include "quant/layer_bits.h"
#include "quant/low_bits.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

const LowBits& Bits(std::string_view name) {
  for (const LowBits* bits : AllLowBits()) {
    if (name == bits->name) return *bits;
  }
  EVOQ_CHECK(false);
}

// A matrix to round and X^T X of correlated inputs.
struct Problem {
  int64_t depth, columns;
  WeightRounding rounding;
  WeightGrid grid;
  std::vector<float> w;
  std::vector<double> gram, damped;
  Workspace workspace;
  RoundingTools tools;

  Problem(int64_t k, int64_t n, const LowBits* bits, int64_t block, int seed = 1, int threads = 1,
          int of_int8 = 8)
      : depth(k),
        columns(n),
        rounding{.node = "m",
                 .weight = "w",
                 .values = Tensor::Allocate(TensorType(DType::kFloat32, Shape{k, n})),
                 .low_bits = bits,
                 .block = block,
                 .axis = bits == nullptr ? 1 : -1,
                 .bits = of_int8},
        grid(rounding, {1, k, n, false}),
        workspace(threads),
        tools{SelectIsa().value(), workspace} {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t i = 0; i < k * n; ++i) rounding.values.mutable_data<float>()[i] = normal(random);
    w = grid.Matrix(0);
    gram.assign(static_cast<size_t>(k * k), 0);
    for (int row = 0; row < 4 * k; ++row) {
      std::vector<double> x(static_cast<size_t>(k));
      const double common = normal(random);
      for (double& v : x) v = common + 0.4 * normal(random);
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < k; ++j) gram[i * k + j] += x[i] * x[j];
      }
    }
    damped = Damped(gram, k, 0.01);
  }

  double Error(const RoundedMatrix& rounded) {
    return ResultError(grid, w, damped, rounded, tools);
  }
};

TEST(LayerRounding, CholeskyOfSizesAroundItsBlocks) {
  for (int64_t depth : {1, 2, 63, 64, 65, 200}) {
    Problem p(depth, 1, nullptr, 0, 3);
    std::vector<double> l = p.damped;
    ASSERT_TRUE(Cholesky(l, depth, p.tools));
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (int64_t k = 0; k <= j; ++k) sum += l[i * depth + k] * l[j * depth + k];
        EXPECT_NEAR(sum, p.damped[i * depth + j], 1e-9 * p.damped[i * depth + i]);
      }
    }
  }
  std::vector<double> none = {1, 2, 2, 1};
  Problem p(2, 1, nullptr, 0);
  const Status status = Cholesky(none, 2, p.tools);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "the inputs' X^T X is not positive definite at row 1");
}

// Solved by Gauss elimination in the test.
std::vector<double> Inverse(std::vector<double> a, int64_t n) {
  std::vector<double> b(a.size());
  for (int64_t i = 0; i < n; ++i) b[i * n + i] = 1;
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t i = 0; i < n; ++i) {
      if (i == c) continue;
      const double factor = a[i * n + c] / a[c * n + c];
      for (int64_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[c * n + j];
        b[i * n + j] -= factor * b[c * n + j];
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) b[i * n + j] /= a[i * n + i];
  }
  return b;
}

// The paper's formulas (optimal brain quantization), with the inverse of what is left of H.
std::vector<float> GptqOfThePaper(Problem& p, const RoundedMatrix& scales) {
  std::vector<double> w(p.w.begin(), p.w.end());
  std::vector<float> numbers(p.w.size());
  std::vector<int64_t> left(static_cast<size_t>(p.depth));
  for (int64_t k = 0; k < p.depth; ++k) left[k] = k;
  std::ranges::stable_sort(left, [&](int64_t i, int64_t j) {
    return p.damped[i * p.depth + i] > p.damped[j * p.depth + j];
  });
  while (!left.empty()) {
    const auto size = static_cast<int64_t>(left.size());
    std::vector<double> h(static_cast<size_t>(size * size));
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < size; ++j) h[i * size + j] = p.damped[left[i] * p.depth + left[j]];
    }
    const std::vector<double> inverse = Inverse(h, size);
    const int64_t row = left[0], at = row / p.grid.block() * p.columns;
    for (int64_t n = 0; n < p.columns; ++n) {
      const auto v = static_cast<float>(w[row * p.columns + n]);
      float& number = numbers[row * p.columns + n];
      p.grid.Nearest(&v, &scales.scales[at + n], &scales.zeros[at + n], 1, &number);
      const double error = (w[row * p.columns + n] - number * scales.scales[at + n]) / inverse[0];
      for (int64_t i = 1; i < size; ++i) w[left[i] * p.columns + n] -= error * inverse[i * size];
    }
    left.erase(left.begin());
  }
  return numbers;
}

TEST(LayerRounding, GptqIsThePapers) {
  for (const char* name : {"int4", "uint4", "int2", "nf4", "mxfp4"}) {
    Problem p(40, 5, &Bits(name), 16);
    const RoundedMatrix nearest = Nearest(p.grid, 0, p.w, {});
    const auto rounded = Gptq(p.grid, p.w, p.damped, nearest, p.tools);
    ASSERT_TRUE(rounded);
    EXPECT_EQ(rounded->numbers, GptqOfThePaper(p, nearest)) << name;
    EXPECT_EQ(rounded->scales, nearest.scales) << name;
  }
}

// The least error of a column of depth 4 over all numbers of int4.
double LeastError(Problem& p, const RoundedMatrix& scales, int64_t n) {
  double least = INFINITY;
  for (int code = 0; code < 16 * 16 * 16 * 16; ++code) {
    double e[4], f = 0;
    for (int k = 0; k < 4; ++k)
      e[k] = p.w[k * p.columns + n] - ((code >> (4 * k) & 15) - 8) * scales.scales[n];
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) f += e[i] * p.damped[i * 4 + j] * e[j];
    }
    least = std::min(least, f);
  }
  return least;
}

// Four by four: no algorithm beats brute force, and they come near it.
TEST(LayerRounding, AgainstBruteForce) {
  double best = 0, nearest_error = 0, gptq = 0, descent = 0, adaround = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    Problem p(4, 4, &Bits("int4"), 0, seed);
    const RoundedMatrix nearest = Nearest(p.grid, 0, p.w, {});
    for (int64_t n = 0; n < 4; ++n) best += LeastError(p, nearest, n);
    nearest_error += p.Error(nearest);
    const auto rounded = Gptq(p.grid, p.w, p.damped, nearest, p.tools);
    ASSERT_TRUE(rounded);
    gptq += p.Error(*rounded);
    RoundedMatrix learned = nearest, descended = *rounded;
    AdaRound(p.grid, p.w, p.damped, p.tools, learned);
    adaround += p.Error(learned);
    Descend(p.grid, 0, p.w, p.damped, 4, p.tools, descended);
    descent += p.Error(descended);
    EXPECT_LE(p.Error(descended), p.Error(*rounded));
    EXPECT_LE(p.Error(learned), p.Error(nearest));
  }
  RecordProperty("best", std::to_string(best));
  RecordProperty("nearest", std::to_string(nearest_error));
  RecordProperty("gptq", std::to_string(gptq));
  RecordProperty("adaround", std::to_string(adaround));
  RecordProperty("descent", std::to_string(descent));
  EXPECT_GE(gptq, best * (1 - 1e-9));
  EXPECT_GE(adaround, best * (1 - 1e-9));
  EXPECT_LE(gptq, 1.5 * best);
  EXPECT_LE(adaround, 1.5 * best);
}

// On a layer of a usual size each at least halves the error of the nearest.
TEST(LayerRounding, HalvesTheErrorOfRoundingToNearest) {
  struct Case {
    const char* name;
    const LowBits* bits;
    int of_int8;
    float low, high;
  };
  for (const auto& [kind, bits, of_int8, low, high] :
       {Case{"int4", &Bits("int4"), 8, -8, 7}, Case{"int8", nullptr, 8, -127, 127},
        Case{"int8 of 4 bits", nullptr, 4, -8, 7}, Case{"int8 of 2 bits", nullptr, 2, -2, 1}}) {
    Problem p(96, 48, bits, bits == nullptr ? 0 : 32, 1, 1, of_int8);
    const RoundedMatrix nearest = Nearest(p.grid, 0, p.w, {});
    const auto gptq = Gptq(p.grid, p.w, p.damped, nearest, p.tools);
    ASSERT_TRUE(gptq);
    RoundedMatrix learned = nearest, descended = nearest;
    AdaRound(p.grid, p.w, p.damped, p.tools, learned);
    Descend(p.grid, 0, p.w, p.damped, 8, p.tools, descended);
    for (const auto& [name, error] : {std::pair("nearest", p.Error(nearest)),
                                      {"gptq", p.Error(*gptq)},
                                      {"adaround", p.Error(learned)},
                                      {"quantease", p.Error(descended)}})
      RecordProperty(fmt::format("{}.{}", kind, name), std::to_string(error));
    EXPECT_LE(p.Error(*gptq), p.Error(nearest) / 2) << kind;
    EXPECT_LE(p.Error(learned), p.Error(nearest) / 2) << kind;
    EXPECT_LE(p.Error(descended), p.Error(nearest) / 2) << kind;
    for (const RoundedMatrix& rounded : {nearest, *gptq, learned, descended}) {
      for (const float q : rounded.numbers) ASSERT_TRUE(q >= low && q <= high) << kind << " " << q;
    }
    // AdaRound rounds up or down.
    for (size_t i = 0; i < p.w.size(); ++i) {
      const size_t n = i % 48, at = (i / 48) / static_cast<size_t>(p.grid.block()) * 48 + n;
      EXPECT_LE(std::fabs(std::clamp(p.w[i] / nearest.scales[at], low, high) - learned.numbers[i]),
                1.0001f);
    }
  }
}

// No number and no scale alone makes the end of the descent better.
TEST(LayerRounding, DescentEndsWhereNoNumberHelps) {
  Problem p(24, 3, &Bits("int4"), 8);
  RoundedMatrix rounded = Nearest(p.grid, 0, p.w, {});
  Descend(p.grid, 0, p.w, p.damped, 50, p.tools, rounded);
  const double error = p.Error(rounded);
  for (size_t i = 0; i < p.w.size(); ++i) {
    const float kept = rounded.numbers[i];
    for (float number = -8; number <= 7; ++number) {
      rounded.numbers[i] = number;
      EXPECT_GE(p.Error(rounded), error * (1 - 1e-6)) << i << " " << number;
    }
    rounded.numbers[i] = kept;
  }
}

TEST(LayerRounding, DoesNotDependOnThreads) {
  for (const int64_t depth : {40, 200}) {
    Problem one(depth, 70, &Bits("int4"), 32, 5, 1), two(depth, 70, &Bits("int4"), 32, 5, 2);
    RoundedMatrix rounded[2];
    for (Problem* p : {&one, &two}) {
      RoundedMatrix& to = rounded[p == &two];
      to = *Gptq(p->grid, p->w, p->damped, Nearest(p->grid, 0, p->w, {}), p->tools);
      AdaRound(p->grid, p->w, p->damped, p->tools, to);
      Descend(p->grid, 0, p->w, p->damped, 2, p->tools, to);
    }
    EXPECT_EQ(rounded[0].numbers, rounded[1].numbers);
    EXPECT_EQ(rounded[0].scales, rounded[1].scales);
  }
}

// What is stored is what was chosen, and without sizes of inputs it is what schemes round to.
TEST(WeightGrid, StoresAndReads) {
  std::vector<const LowBits*> all(AllLowBits().begin(), AllLowBits().end());
  all.push_back(nullptr);
  for (const LowBits* bits : all) {
    for (const int64_t block : {0, 16}) {
      if (bits == nullptr && block != 0) continue;
      Problem p(37, 7, bits, block);
      const RoundedMatrix nearest = Nearest(p.grid, 0, p.w, {});
      const Tensor stored = p.grid.Store(std::span(&nearest, 1));
      const Tensor wanted = RoundToNearest(p.rounding, 1);
      EXPECT_EQ(stored.type(), wanted.type()) << stored.type().ToString();
      EXPECT_TRUE(BitEqual(stored, wanted)) << (bits != nullptr ? bits->name : "int8");
      const RoundedMatrix read = p.grid.Read(0, stored);
      EXPECT_EQ(read.numbers, nearest.numbers);
      EXPECT_EQ(read.scales, nearest.scales);
      EXPECT_EQ(read.zeros, nearest.zeros);
    }
  }
}

// A scale that is asked for, however small or large, is one that fits those of its neighbours.
TEST(WeightGrid, ScalesStayMultiplesOfAStep) {
  LowBits bits = Bits("int4");
  bits.steps = true;
  Problem p(128, 3, &bits, 32);
  const RoundedMatrix nearest = Nearest(p.grid, 0, p.w, {});
  for (int64_t b = 0; b < 4; ++b) {
    for (int64_t n = 0; n < 3; ++n) {
      for (const float share : {1e-4f, 0.5f, 1.0f, 100.0f}) {
        const float wanted = share * nearest.scales[b * 3 + n];
        std::vector<float> together;
        for (int64_t i = 0; i < 4; ++i) together.push_back(nearest.scales[i * 3 + n]);
        ASSERT_TRUE(StepsOf(together));
        together[b] = p.grid.Storable(0, b, n, nearest.scales, wanted);
        EXPECT_GT(together[b], 0);
        EXPECT_TRUE(StepsOf(together)) << b << " " << n << " " << share;
      }
    }
  }
}

// Few bits of int8: multiples that a file holds in so many bits, with a scale for each column or
// one for all.
TEST(WeightGrid, StoresFewBitsAsMultiples) {
  for (const int bits : {4, 2}) {
    for (const auto& [axis, least] : {std::pair(1, 1e-4f), {-1, 1e-4f}, {1, 0.05f}, {-1, 0.05f}}) {
      Problem p(37, 7, nullptr, 0, 2, 1, bits);
      p.rounding.axis = axis;
      p.rounding.least_scale.assign(7, least);
      const WeightGrid grid(p.rounding, p.grid.matrices());
      const RoundedMatrix nearest = Nearest(grid, 0, p.w, {});
      const Tensor stored = grid.Store(std::span(&nearest, 1));
      EXPECT_TRUE(BitEqual(stored, RoundToNearest(p.rounding, 1)));
      EXPECT_EQ(stored.dtype(), DType::kInt8);
      EXPECT_EQ(stored.type().quant->scales.size(), axis == 1 ? 7u : 1u);
      // a bias needs the steps of the multiples to be no finer
      for (const float scale : stored.type().quant->scales) EXPECT_GE(scale, least);
      const auto narrow = NarrowWeights(stored, bits);
      ASSERT_TRUE(narrow) << bits;
      const RoundedMatrix read = grid.Read(0, stored);
      for (size_t i = 0; i < read.numbers.size(); ++i) {
        const size_t n = i % 7;
        ASSERT_EQ(read.numbers[i] * read.scales[n], nearest.numbers[i] * nearest.scales[n]);
        ASSERT_TRUE(read.numbers[i] >= -(1 << (bits - 1)) && read.numbers[i] < 1 << (bits - 1));
      }
    }
  }
}

// Inputs of other sizes make other scales the best: of the error that they weigh.
TEST(WeightGrid, ScalesOfFewBitsFollowTheSizesOfInputs) {
  Problem p(40, 9, nullptr, 0, 4, 1, 4);
  std::vector<float> sizes;
  for (int64_t k = 0; k < p.depth; ++k) sizes.push_back(k % 8 == 0 ? 100.0f : 0.01f);
  const RoundedMatrix plain = Nearest(p.grid, 0, p.w, {}), weighed = Nearest(p.grid, 0, p.w, sizes);
  const auto error = [&](const RoundedMatrix& rounded) {
    double sum = 0;
    for (size_t i = 0; i < p.w.size(); ++i) {
      const double off = double{rounded.numbers[i]} * rounded.scales[i % 9] - p.w[i];
      sum += sizes[i / 9] * off * off;
    }
    return sum;
  };
  EXPECT_LT(error(weighed), 0.8 * error(plain));
}

// A refitted weight gives what is missing of the results: with H nearly exact.
TEST(LayerRounding, RefittedWeights) {
  for (const int64_t depth : {5, 100}) {
    Problem p(depth, 3, nullptr, 0);
    std::vector<double> missing(p.w.size());
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t n = 0; n < 3; ++n) {
        for (int64_t j = 0; j < depth; ++j)
          missing[i * 3 + n] += p.damped[i * depth + j] * (0.01 * static_cast<double>(j + n));
      }
    }
    const auto refitted = Refitted(p.w, p.damped, missing, depth, p.tools);
    ASSERT_TRUE(refitted);
    for (int64_t i = 0; i < depth * 3; ++i)
      EXPECT_NEAR((*refitted)[i] - p.w[i], 0.01 * static_cast<double>(i / 3 + i % 3), 1e-5);
  }
}

}  // namespace
}  // namespace evoq
