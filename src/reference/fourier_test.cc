// Transforms of all kinds of lengths against the sum that they are.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "graph/graph.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Of real (1 part) or complex (2 parts) numbers, two rows of n.
void Check(int64_t n, int64_t parts, bool onesided) {
  SCOPED_TRACE(fmt::format("n {}, {} parts, onesided {}", n, parts, onesided));
  auto graph = ParseGraph(
      fmt::format("input %x: float32[2, {}, {}]\nd: %y = DFT{{onesided={}}}(%x)\noutput %y\n", n,
                  parts, onesided ? 1 : 0));
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(InferTypes(*graph));
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{2, n, parts}));
  for (int64_t i = 0; i < x.elements(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>(i * 37 % 101 - 50) / 50;
  const auto y = EvaluateGraph(*graph, {{x}});
  ASSERT_TRUE(y) << y.error().message();
  const int64_t bins = onesided ? n / 2 + 1 : n;
  ASSERT_EQ((*y)[0].sizes(), (std::vector<int64_t>{2, bins, 2}));
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t k = 0; k < bins; ++k) {
      std::complex<double> sum;
      for (int64_t t = 0; t < n; ++t) {
        const float* at = x.data<float>() + (row * n + t) * parts;
        sum += std::complex<double>(at[0], parts == 2 ? at[1] : 0) *
               std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k * t % n) /
                                   static_cast<double>(n));
      }
      const float* found = (*y)[0].data<float>() + (row * bins + k) * 2;
      EXPECT_NEAR(found[0], sum.real(), 1e-6 * static_cast<double>(n)) << row << " " << k;
      EXPECT_NEAR(found[1], sum.imag(), 1e-6 * static_cast<double>(n)) << row << " " << k;
    }
  }
}

TEST(Fourier, Lengths) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 8, 10, 15, 16, 20, 64, 100, 128}) {
    for (const bool onesided : {false, true}) {
      Check(n, 1, onesided);
      if (!onesided) Check(n, 2, onesided);
    }
  }
}

}  // namespace
}  // namespace evoq
