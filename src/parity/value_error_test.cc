#include "parity/value_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace evoq {
namespace {

using Values = std::vector<float>;

ValueError Of(const Values& a, const Values& b) {
  ValueError error;
  error.Add(a, b);
  return error;
}

TEST(ValueError, ByHand) {
  // a.a = 25, errors 0.5 and -1: noise 1.25; a.b = 3 * 3.5 + 4 * 3, b.b = 3.5^2 + 9.
  const ValueError error = Of({3, 4}, {3.5f, 3});
  EXPECT_DOUBLE_EQ(error.signal(), 25);
  EXPECT_DOUBLE_EQ(error.noise(), 1.25);
  EXPECT_DOUBLE_EQ(error.sqnr_db(), 10 * std::log10(20.0));
  EXPECT_DOUBLE_EQ(error.cosine(), 22.5 / (5 * std::sqrt(21.25)));
  EXPECT_DOUBLE_EQ(error.max_abs(), 1);
  EXPECT_DOUBLE_EQ(error.mean_error(), -0.25);
}

TEST(ValueError, AddsSamplesUp) {
  ValueError sum = Of({3}, {3.5f});
  sum += Of({4}, {3});
  const ValueError whole = Of({3, 4}, {3.5f, 3});
  EXPECT_EQ(sum.elements(), 2);
  EXPECT_DOUBLE_EQ(sum.sqnr_db(), whole.sqnr_db());
  EXPECT_DOUBLE_EQ(sum.cosine(), whole.cosine());
  EXPECT_DOUBLE_EQ(sum.max_abs(), whole.max_abs());
  EXPECT_DOUBLE_EQ(sum.mean_error(), whole.mean_error());
}

TEST(ValueError, WhatIsEqualHasNoError) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const ValueError error = Of({1, inf, nan, -inf}, {1, inf, nan, -inf});
  EXPECT_EQ(error.sqnr_db(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(error.max_abs(), 0);
  EXPECT_EQ(error.mean_error(), 0);
  EXPECT_DOUBLE_EQ(error.cosine(), 1);
  EXPECT_DOUBLE_EQ(Of({0, 0}, {0, 0}).cosine(), 1);
  EXPECT_DOUBLE_EQ(Of({0, 0}, {1, 0}).cosine(), 0);
}

TEST(ValueError, WhatIsNotFiniteIsInfinitelyWrong) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const auto& [a, b] :
       {std::pair(1.0f, nan), std::pair(inf, 1.0f), std::pair(inf, -inf), std::pair(nan, 0.0f)}) {
    const ValueError error = Of({1, a}, {1, b});
    EXPECT_EQ(error.noise(), inf) << a << " " << b;
    EXPECT_EQ(error.max_abs(), inf) << a << " " << b;
    EXPECT_EQ(error.sqnr_db(), -1000) << a << " " << b;
  }
}

}  // namespace
}  // namespace evoq
