#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace evoq {
namespace {

double SumOf(const std::vector<double>& terms) {
  ExactSum sum;
  for (double x : terms) sum.Add(x);
  return sum.Rounded();
}

TEST(ExactSum, NothingIsLost) {
  EXPECT_EQ(SumOf({}), 0);
  EXPECT_EQ(SumOf({1e100, 1, -1e100}), 1);
  EXPECT_EQ(SumOf({1e16, 1, 1}), 1e16 + 2);
  EXPECT_EQ(SumOf({0x1p53, 1}), 0x1p53);               // a tie, to even
  EXPECT_EQ(SumOf({0x1p53, 1, 0x1p-60}), 0x1p53 + 2);  // above the tie
  EXPECT_EQ(SumOf({0x1p53, 1, -0x1p-60}), 0x1p53);     // below it
  EXPECT_EQ(SumOf({0x1p53 + 2, 1}), 0x1p53 + 4);       // a tie, to even
  EXPECT_EQ(SumOf({-0x1p53, -1, -0x1p-60}), -0x1p53 - 2);
}

// Terms of 60 orders of magnitude: a plain sum changes with their order, this one does not.
TEST(ExactSum, OrderDoesNotMatter) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> terms(500);
  for (double& x : terms) x = std::ldexp(normal(random), static_cast<int>(random() % 200) - 100);
  const double sum = SumOf(terms);
  bool plain_differs = false;
  const auto plain = [&] {
    double total = 0;
    for (double x : terms) total += x;
    return total;
  };
  const double first = plain();
  for (int round = 0; round < 20; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(SumOf(terms), sum);
    plain_differs = plain_differs || plain() != first;
  }
  EXPECT_TRUE(plain_differs);
}

}  // namespace
}  // namespace evoq
