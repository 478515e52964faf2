// The public products against sums in double precision.
#include "evoq/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

struct Case {
  evoq_order order;
  evoq_transpose ta, tb;
  int64_t m, n, k, more;  // leading dimensions are so much larger than they must be
  float alpha, beta;
};

std::vector<float> Random(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

// Where element (i, j) of a matrix lies.
size_t At(evoq_order order, evoq_transpose t, int64_t i, int64_t j, int64_t leading) {
  if (t == EVOQ_TRANSPOSE) std::swap(i, j);
  return static_cast<size_t>(order == EVOQ_ROW_MAJOR ? i * leading + j : i + j * leading);
}

struct Sgemm {
  Case x;
  int64_t lda, ldb, ldc;
  std::vector<float> a, b, c;

  Sgemm(const Case& given, std::mt19937& random) : x(given) {
    const bool row = x.order == EVOQ_ROW_MAJOR;
    lda = (row == (x.ta == EVOQ_NO_TRANSPOSE) ? x.k : x.m) + x.more;
    ldb = (row == (x.tb == EVOQ_NO_TRANSPOSE) ? x.n : x.k) + x.more;
    ldc = (row ? x.n : x.m) + x.more;
    lda = std::max<int64_t>(lda, 1), ldb = std::max<int64_t>(ldb, 1),
    ldc = std::max<int64_t>(ldc, 1);
    a = Random(lda * std::max(x.m, x.k), random);
    b = Random(ldb * std::max(x.k, x.n), random);
    c = Random(ldc * std::max(x.m, x.n), random);
    if (x.beta == 0) std::fill(c.begin(), c.end(), std::nanf(""));
  }
  int Run(std::vector<float>& y) const {
    return evoq_sgemm(x.order, x.ta, x.tb, x.m, x.n, x.k, x.alpha, a.data(), lda, b.data(), ldb,
                      x.beta, y.data(), ldc);
  }
  // What element (i, j) is, and what it may be off by.
  std::pair<double, double> Expected(int64_t i, int64_t j) const {
    double sum = 0, size = 0;
    for (int64_t l = 0; l < x.k; ++l) {
      const double term = static_cast<double>(a[At(x.order, x.ta, i, l, lda)]) *
                          static_cast<double>(b[At(x.order, x.tb, l, j, ldb)]);
      sum += term;
      size += std::fabs(term);
    }
    const size_t at = At(x.order, EVOQ_NO_TRANSPOSE, i, j, ldc);
    const double before = x.beta == 0 ? 0 : static_cast<double>(x.beta) * c[at];
    return {x.alpha * sum + before,
            1e-6 * (std::fabs(x.alpha) * size * std::sqrt(x.k + 1.0) + std::fabs(before)) + 1e-30};
  }
};

void Check(const Sgemm& s, const std::string& name) {
  std::vector<float> y = s.c;
  ASSERT_EQ(s.Run(y), 0) << name;
  std::vector<bool> written(y.size());
  for (int64_t i = 0; i < s.x.m; ++i) {
    for (int64_t j = 0; j < s.x.n; ++j) {
      const size_t at = At(s.x.order, EVOQ_NO_TRANSPOSE, i, j, s.ldc);
      written[at] = true;
      const auto [expected, bound] = s.Expected(i, j);
      ASSERT_NEAR(y[at], expected, bound) << name << " at " << i << ", " << j;
    }
  }
  for (size_t i = 0; i < y.size(); ++i) {
    if (!written[i]) {
      ASSERT_EQ(std::memcmp(&y[i], &s.c[i], sizeof(float)), 0) << name << ": beside c, " << i;
    }
  }
}

TEST(Gemm, SumsOfAnyShape) {
  std::mt19937 random(3);
  constexpr int64_t kSizes[] = {1, 2, 3, 8, 9, 15, 16, 17, 31, 33, 48, 70, 130};
  constexpr float kFactors[] = {1, 0, -1, 0.5f};
  for (int round = 0; round < 400; ++round) {
    const auto size = [&] { return kSizes[random() % std::size(kSizes)]; };
    const Case c = {random() % 2 ? EVOQ_ROW_MAJOR : EVOQ_COLUMN_MAJOR,
                    random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE,
                    random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE,
                    size(),
                    size(),
                    random() % 9 == 0 ? 0 : size() * (random() % 8 == 0 ? 17 : 1),
                    random() % 3 == 0 ? 5 : 0,
                    kFactors[random() % 4],
                    kFactors[random() % 4]};
    Check(Sgemm(c, random), "round " + std::to_string(round));
  }
}

TEST(Gemm, ThreadsDoNotChangeBits) {
  std::mt19937 random(4);
  const Sgemm s({EVOQ_COLUMN_MAJOR, EVOQ_TRANSPOSE, EVOQ_NO_TRANSPOSE, 201, 333, 1500, 0, 1, 1},
                random);
  std::vector<float> one = s.c, three = s.c;
  ASSERT_EQ(evoq_gemm_set_threads(1), 0);
  ASSERT_EQ(s.Run(one), 0);
  ASSERT_EQ(evoq_gemm_set_threads(3), 0);
  ASSERT_EQ(s.Run(three), 0);
  EXPECT_EQ(one, three);
  // Callers at once: those that find the threads busy run on their own.
  std::vector<std::vector<float>> results(4, s.c);
  std::vector<std::thread> callers;
  for (auto& y : results) callers.emplace_back([&] { EXPECT_EQ(s.Run(y), 0); });
  for (std::thread& caller : callers) caller.join();
  for (const auto& y : results) EXPECT_EQ(y, one);
  ASSERT_EQ(evoq_gemm_set_threads(0), 0);
  EXPECT_EQ(evoq_gemm_set_threads(-1), 1);
  EXPECT_EQ(evoq_gemm_set_threads(100000), 1);
}

TEST(Gemm, NamesTheWrongArgument) {
  std::vector<float> v(100, 1);
  const auto call = [&](int wrong) {
    return evoq_sgemm(wrong == 1 ? static_cast<evoq_order>(7) : EVOQ_ROW_MAJOR,
                      wrong == 2 ? static_cast<evoq_transpose>(7) : EVOQ_NO_TRANSPOSE,
                      wrong == 3 ? static_cast<evoq_transpose>(7) : EVOQ_NO_TRANSPOSE,
                      wrong == 4 ? -1 : 2, wrong == 5 ? -1 : 3, wrong == 6 ? -1 : 4, 1,
                      wrong == 8 ? nullptr : v.data(), wrong == 9 ? 3 : 4,
                      wrong == 10 ? nullptr : v.data(), wrong == 11 ? 2 : 3, 0,
                      wrong == 13 ? nullptr : v.data() + 50, wrong == 14 ? 2 : 3);
  };
  for (int argument : {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14}) EXPECT_EQ(call(argument), argument);
  EXPECT_EQ(v, std::vector<float>(100, 1)) << "nothing is written";
  EXPECT_EQ(call(0), 0);
  EXPECT_EQ(v[50], 4);
  EXPECT_EQ(evoq_sgemm(EVOQ_ROW_MAJOR, EVOQ_NO_TRANSPOSE, EVOQ_NO_TRANSPOSE, 0, 3, 4, 1, nullptr, 4,
                       nullptr, 3, 0, nullptr, 3),
            0)
      << "there is nothing to write";
  EXPECT_EQ(
      evoq_sgemm(EVOQ_ROW_MAJOR, EVOQ_NO_TRANSPOSE, EVOQ_NO_TRANSPOSE, INT64_MAX / 4, INT64_MAX / 4,
                 1, 1, v.data(), 1, v.data(), INT64_MAX / 4, 0, v.data(), INT64_MAX / 4),
      EVOQ_GEMM_NO_MEMORY);
}

TEST(Gemm, WithoutMemoryLeavesCAsItWas) {
  const int64_t k = int64_t{1} << 42;  // its panel takes more than there are addresses
  const float a = 1, b = 1;
  float c = 3;
  EXPECT_EQ(evoq_sgemm(EVOQ_ROW_MAJOR, EVOQ_NO_TRANSPOSE, EVOQ_NO_TRANSPOSE, 1, 1, k, 1, &a, k, &b,
                       1, 2, &c, 1),
            EVOQ_GEMM_NO_MEMORY);
  EXPECT_EQ(c, 3);
}

}  // namespace
