// Doubles and what they should give, for the tests of float64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tensor/tensor.h"

namespace evoq {

using Real = long double;

// In [-1, 1), no value a float32.
inline Tensor Doubles(Shape shape, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<size_t>(*shape.elements()));
  for (double& v : values) v = std::uniform_real_distribution<double>(-1, 1)(random);
  return Tensor::FromValues<double>(std::move(shape), values);
}

inline void ExpectNear(const Tensor& got, const std::vector<Real>& want, const std::string& what) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.dtype(), DType::kFloat64) << what;
  ASSERT_EQ(got.elements(), static_cast<int64_t>(want.size())) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    const double v = got.data<double>()[i], w = static_cast<double>(want[i]);
    ASSERT_NEAR(v, w, 1e-14 * std::max(1.0, std::fabs(w))) << what << " element " << i;
  }
}

inline const double* D(const Tensor& t) { return t.data<double>(); }

}  // namespace evoq
