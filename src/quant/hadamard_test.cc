// The matrices are orthogonal, with elements of one size.
#include "quant/hadamard.h"

#include <gtest/gtest.h>

#include <cmath>

namespace evoq {
namespace {

TEST(Rotation, IsOrthogonalWithElementsOfOneSize) {
  for (const int64_t size : {1, 2, 4, 8, 12, 20, 24, 40, 64, 72, 96, 224, 256, 576, 896}) {
    const auto rotation = Rotation::Of(size, 1);
    ASSERT_TRUE(rotation) << size;
    ASSERT_EQ(rotation->size(), size);
    std::vector<std::vector<double>> q;
    for (int64_t i = 0; i < size; ++i) {
      std::vector<double> row(static_cast<size_t>(size));
      row[i] = 1;
      rotation->Apply(row);
      for (double v : row) EXPECT_NEAR(std::fabs(v), 1 / std::sqrt(size), 1e-12) << size;
      q.push_back(std::move(row));
    }
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double product = 0;
        for (int64_t k = 0; k < size; ++k) product += q[i][k] * q[j][k];
        EXPECT_NEAR(product, i == j, 1e-10) << size << ": " << i << ", " << j;
      }
    }
  }
  for (const int64_t size : {0, 3, 6, 10, 28, 52, 100}) EXPECT_FALSE(Rotation::Of(size, 1)) << size;
}

TEST(Rotation, SignsAreOfTheSeed) {
  const auto rotated = [](uint32_t seed) {
    std::vector<double> x = {1, 2, 3, 4, 5, 6, 7, 8};
    Rotation::Of(8, seed)->Apply(x);
    return x;
  };
  EXPECT_EQ(rotated(1), rotated(1));
  EXPECT_NE(rotated(1), rotated(2));
}

}  // namespace
}  // namespace evoq
