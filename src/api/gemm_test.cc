// The public products against sums in double precision.
#include "evoq/gemm.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/sanitized.h"

namespace {

// The instruction set is chosen once, by the first product of a process: death tests run first.
TEST(GemmDeathTest, NoSuchTarget) {
  const auto multiplied = [] {
    ::setenv("EVOQ_TARGET", "NONE", 1);
    const float a = 2, b = 3;
    float c = 5;
    const int done = evoq_sgemm(EVOQ_ROW_MAJOR, EVOQ_NO_TRANSPOSE, EVOQ_NO_TRANSPOSE, 1, 1, 1, 1,
                                &a, 1, &b, 1, 0, &c, 1);
    std::_Exit(done == EVOQ_GEMM_NO_TARGET && c == 5 ? 0 : 1);
  };
  EXPECT_EXIT(multiplied(), testing::ExitedWithCode(0), "");
}

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
  const auto call = [&](std::vector<int> wrong) {
    const auto is = [&](int argument) {
      return std::find(wrong.begin(), wrong.end(), argument) != wrong.end();
    };
    return evoq_sgemm(is(1) ? static_cast<evoq_order>(7) : EVOQ_ROW_MAJOR,
                      is(2) ? static_cast<evoq_transpose>(7) : EVOQ_NO_TRANSPOSE,
                      is(3) ? static_cast<evoq_transpose>(7) : EVOQ_NO_TRANSPOSE, is(4) ? -1 : 2,
                      is(5) ? -1 : 3, is(6) ? -1 : 4, 1, is(8) ? nullptr : v.data(), is(9) ? 3 : 4,
                      is(10) ? nullptr : v.data(), is(11) ? 2 : 3, 0,
                      is(13) ? nullptr : v.data() + 50, is(14) ? 2 : 3);
  };
  constexpr int kArguments[] = {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14};
  for (int first : kArguments) {
    for (int later : kArguments) {
      if (later >= first) EXPECT_EQ(call({first, later}), first) << "and " << later;
    }
  }
  EXPECT_EQ(v, std::vector<float>(100, 1)) << "nothing is written";
  EXPECT_EQ(call({}), 0);
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

// Sizes of panels that no int64 holds, though nothing is in them.
TEST(Gemm, PanelsWithoutEnd) {
  constexpr auto kNo = EVOQ_NO_TRANSPOSE;
  evoq_packed* packed = nullptr;
  EXPECT_EQ(evoq_gemm_s8_pack(kNo, INT64_MAX, 0, nullptr, INT64_MAX, 0, &packed),
            EVOQ_GEMM_NO_MEMORY);
  EXPECT_EQ(evoq_sgemm_pack(kNo, INT64_MAX, 0, nullptr, INT64_MAX, &packed), EVOQ_GEMM_NO_MEMORY);
  EXPECT_EQ(packed, nullptr);
}

#ifndef EVOQ_SANITIZED  // which keep several times as much on it
// On a thread with the stack that gemm.h asks for.
TEST(Gemm, TakesNoMoreStackThanItSays) {
  const auto products = [](void*) -> void* {
    constexpr auto kRow = EVOQ_ROW_MAJOR;
    constexpr auto kNo = EVOQ_NO_TRANSPOSE, kT = EVOQ_TRANSPOSE;
    const int64_t m = 60, n = 70, k = 2100;  // K in parts
    const std::vector<float> a(m * k, 1), b(k * n, 1);
    const std::vector<double> a64(m * k, 1), b64(k * n, 1);
    const std::vector<uint16_t> a16(m * k, 0x3f80), b16(k * n, 0x3f80);
    const std::vector<int8_t> a8(m * k, 1), b8(k * n, 1);
    std::vector<float> c(m * n, 1), d = c;
    std::vector<double> e(m * n, 1);
    std::vector<int32_t> f(m * n, 1);
    int wrong = evoq_sgemm(kRow, kT, kNo, m, n, k, 2, a.data(), m, b.data(), n, 2, c.data(), n);
    wrong |=
        evoq_gemm_bf16(kRow, kNo, kT, m, n, k, 1, a16.data(), k, b16.data(), k, 1, d.data(), n);
    wrong |= evoq_dgemm(kRow, kNo, kNo, m, n, k, 1, a64.data(), k, b64.data(), n, 1, e.data(), n);
    wrong |= evoq_gemm_s8s8s32(kRow, kNo, kNo, m, n, k, a8.data(), k, -1, b8.data(), n, 0, 1,
                               f.data(), n);
    const bool right = c[0] == 4202 && d[0] == 2101 && e[0] == 2101 && f[0] == 4201;
    return reinterpret_cast<void*>(wrong == 0 && right ? intptr_t{1} : intptr_t{0});
  };
  ASSERT_EQ(evoq_gemm_set_threads(1), 0);
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 384 << 10), 0);
  ASSERT_EQ(pthread_attr_setguardsize(&attributes, 1 << 20), 0);  // a frame may skip over a page
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, products, nullptr), 0);
  void* right = nullptr;
  ASSERT_EQ(pthread_join(thread, &right), 0);
  EXPECT_NE(right, nullptr);
  pthread_attr_destroy(&attributes);
  ASSERT_EQ(evoq_gemm_set_threads(0), 0);
}
#endif

TEST(Gemm, WithoutMemoryLeavesCAsItWas) {
  const int64_t k = int64_t{1} << 42;  // its panel takes more than there are addresses
  const float a = 1, b = 1;
  float c = 3;
  EXPECT_EQ(evoq_sgemm(EVOQ_ROW_MAJOR, EVOQ_NO_TRANSPOSE, EVOQ_NO_TRANSPOSE, 1, 1, k, 1, &a, k, &b,
                       1, 2, &c, 1),
            EVOQ_GEMM_NO_MEMORY);
  EXPECT_EQ(c, 3);
}

// Bytes in every order: exact.
template <typename A, typename Product>
void ExpectBytes(const Product& multiply) {
  std::mt19937 random(6);
  for (int round = 0; round < 60; ++round) {
    const auto m = static_cast<int64_t>(1 + random() % 40),
               n = static_cast<int64_t>(1 + random() % 70), k = static_cast<int64_t>(random() % 90);
    const auto order = random() % 2 ? EVOQ_ROW_MAJOR : EVOQ_COLUMN_MAJOR;
    const auto ta = random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE,
               tb = random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE;
    const bool row = order == EVOQ_ROW_MAJOR;
    const int64_t lda = std::max<int64_t>(row == (ta == EVOQ_NO_TRANSPOSE) ? k : m, 1),
                  ldb = std::max<int64_t>(row == (tb == EVOQ_NO_TRANSPOSE) ? n : k, 1),
                  ldc = row ? n : m;
    std::vector<A> a(static_cast<size_t>(m * k + 1));
    std::vector<int8_t> b(static_cast<size_t>(k * n + 1));
    std::vector<int32_t> c(static_cast<size_t>(m * n));
    for (A& v : a) v = static_cast<A>(random());
    for (int8_t& v : b) v = static_cast<int8_t>(random());
    for (int32_t& v : c) v = static_cast<int32_t>(random() % 1000);
    const int32_t a_zero = random() % 3 ? 11 : 0, b_zero = random() % 3 ? 0 : -5,
                  beta = static_cast<int32_t>(random() % 2);
    std::vector<int32_t> y = c;
    ASSERT_EQ(multiply(order, ta, tb, m, n, k, a.data(), lda, a_zero, b.data(), ldb, b_zero, beta,
                       y.data(), ldc),
              0);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = At(order, EVOQ_NO_TRANSPOSE, i, j, ldc);
        int32_t sum = beta * c[at];
        for (int64_t l = 0; l < k; ++l)
          sum += (a[At(order, ta, i, l, lda)] - a_zero) * (b[At(order, tb, l, j, ldb)] - b_zero);
        ASSERT_EQ(y[at], sum) << "round " << round << " at " << i << ", " << j;
      }
    }
  }
}
TEST(Gemm, UnsignedBySignedBytes) { ExpectBytes<uint8_t>(evoq_gemm_u8s8s32); }
TEST(Gemm, SignedBytes) { ExpectBytes<int8_t>(evoq_gemm_s8s8s32); }

float Widened(uint16_t v) {
  const uint32_t bits = uint32_t{v} << 16;
  float f;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}

TEST(Gemm, Bfloat16InEveryOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    Sgemm s(
        {random() % 2 ? EVOQ_ROW_MAJOR : EVOQ_COLUMN_MAJOR,
         random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE,
         random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE, static_cast<int64_t>(1 + random() % 30),
         static_cast<int64_t>(1 + random() % 50), static_cast<int64_t>(1 + random() % 60), 1,
         random() % 2 ? 1.0f : 0.25f, random() % 2 ? 0.0f : 2.0f},
        random);
    const auto narrow = [](std::vector<float>& values) {
      std::vector<uint16_t> halves;
      for (float& v : values) {
        uint32_t bits;
        std::memcpy(&bits, &v, sizeof(bits));
        halves.push_back(static_cast<uint16_t>(bits >> 16));
        v = Widened(halves.back());
      }
      return halves;
    };
    const std::vector<uint16_t> a = narrow(s.a), b = narrow(s.b);
    std::vector<float> y = s.c;
    const Case& x = s.x;
    ASSERT_EQ(evoq_gemm_bf16(x.order, x.ta, x.tb, x.m, x.n, x.k, x.alpha, a.data(), s.lda, b.data(),
                             s.ldb, x.beta, y.data(), s.ldc),
              0);
    for (int64_t i = 0; i < x.m; ++i) {
      for (int64_t j = 0; j < x.n; ++j) {
        const auto [expected, bound] = s.Expected(i, j);
        ASSERT_NEAR(y[At(x.order, EVOQ_NO_TRANSPOSE, i, j, s.ldc)], expected, bound) << round;
      }
    }
  }
}

TEST(Gemm, DoublesInEveryOrder) {
  std::mt19937 random(11);
  constexpr int64_t kSizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 60, 130};
  constexpr float kFactors[] = {1, 0, -1, 0.5f};
  for (int round = 0; round < 200; ++round) {
    const auto size = [&] { return kSizes[random() % std::size(kSizes)]; };
    const Sgemm s({random() % 2 ? EVOQ_ROW_MAJOR : EVOQ_COLUMN_MAJOR,
                   random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE,
                   random() % 2 ? EVOQ_NO_TRANSPOSE : EVOQ_TRANSPOSE, size(), size(),
                   size() * (random() % 8 == 0 ? 5 : 1), random() % 3 == 0 ? 5 : 0,
                   kFactors[random() % 4], kFactors[random() % 4]},
                  random);
    const Case& x = s.x;
    const std::vector<double> a(s.a.begin(), s.a.end()), b(s.b.begin(), s.b.end()),
        before(s.c.begin(), s.c.end());
    std::vector<double> c = before, y = c, z = c;
    const auto run = [&](std::vector<double>& to) {
      return evoq_dgemm(x.order, x.ta, x.tb, x.m, x.n, x.k, x.alpha, a.data(), s.lda, b.data(),
                        s.ldb, x.beta, to.data(), s.ldc);
    };
    ASSERT_EQ(evoq_gemm_set_threads(1), 0);
    ASSERT_EQ(run(y), 0);
    ASSERT_EQ(evoq_gemm_set_threads(3), 0);
    ASSERT_EQ(run(z), 0);
    for (int64_t i = 0; i < x.m; ++i) {
      for (int64_t j = 0; j < x.n; ++j) {
        const size_t at = At(x.order, EVOQ_NO_TRANSPOSE, i, j, s.ldc);
        const auto [expected, bound] = s.Expected(i, j);
        ASSERT_NEAR(y[at], expected, bound * 1e-8 + 1e-14) << "round " << round;
        ASSERT_EQ(y[at], z[at]) << "threads";
        y[at] = z[at] = c[at] = 0;
      }
    }
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(std::memcmp(&y[i], &c[i], sizeof(double)), 0) << "beside c";
  }
  ASSERT_EQ(evoq_gemm_set_threads(0), 0);
}

// What was packed gives the same bits, for any number of rows.
TEST(Gemm, PackedGivesTheSame) {
  std::mt19937 random(8);
  const int64_t n = 75, k = 130;
  const std::vector<float> b = Random(k * n, random), a = Random(40 * k, random);
  std::vector<int8_t> b8(static_cast<size_t>(k * n)), a8(static_cast<size_t>(40 * k));
  for (int8_t& v : b8) v = static_cast<int8_t>(random());
  for (int8_t& v : a8) v = static_cast<int8_t>(random());
  std::vector<uint16_t> b16(b8.size()), a16(a8.size());
  for (size_t i = 0; i < b16.size(); ++i) b16[i] = static_cast<uint16_t>(0x3f00 + b8[i]);
  for (size_t i = 0; i < a16.size(); ++i) a16[i] = static_cast<uint16_t>(0x3f00 + a8[i]);
  const auto* u8 = reinterpret_cast<const uint8_t*>(a8.data());
  constexpr auto kRow = EVOQ_ROW_MAJOR;
  constexpr auto kNo = EVOQ_NO_TRANSPOSE, kT = EVOQ_TRANSPOSE;
  evoq_packed *f32 = nullptr, *bf16 = nullptr, *s8 = nullptr;
  ASSERT_EQ(evoq_sgemm_pack(kT, n, k, b.data(), k, &f32), 0);
  ASSERT_EQ(evoq_gemm_bf16_pack(kNo, n, k, b16.data(), n, &bf16), 0);
  ASSERT_EQ(evoq_gemm_s8_pack(kT, n, k, b8.data(), k, 3, &s8), 0);
  for (int64_t m : {1, 7, 40}) {
    std::vector<float> y(static_cast<size_t>(m * n), 1), z = y;
    EXPECT_EQ(evoq_sgemm(kRow, kNo, kT, m, n, k, 2, a.data(), k, b.data(), k, 1, y.data(), n), 0);
    EXPECT_EQ(evoq_sgemm_packed(kNo, m, 2, a.data(), k, f32, 1, z.data(), n), 0);
    EXPECT_EQ(y, z) << m;
    EXPECT_EQ(
        evoq_gemm_bf16(kRow, kT, kNo, m, n, k, 1, a16.data(), m, b16.data(), n, 0, y.data(), n), 0);
    EXPECT_EQ(evoq_gemm_bf16_packed(kT, m, 1, a16.data(), m, bf16, 0, z.data(), n), 0);
    EXPECT_EQ(y, z) << m;
    std::vector<int32_t> i(static_cast<size_t>(m * n), 1), j = i;
    EXPECT_EQ(
        evoq_gemm_s8s8s32(kRow, kNo, kT, m, n, k, a8.data(), k, 9, b8.data(), k, 3, 1, i.data(), n),
        0);
    EXPECT_EQ(evoq_gemm_s8s8s32_packed(kNo, m, a8.data(), k, 9, s8, 1, j.data(), n), 0);
    EXPECT_EQ(i, j) << m;
    EXPECT_EQ(evoq_gemm_u8s8s32(kRow, kNo, kT, m, n, k, u8, k, 9, b8.data(), k, 3, 0, i.data(), n),
              0);
    EXPECT_EQ(evoq_gemm_u8s8s32_packed(kNo, m, u8, k, 9, s8, 0, j.data(), n), 0);
    EXPECT_EQ(i, j) << m;
  }
  // What another function packed is refused, and nothing is.
  float y = 5;
  EXPECT_EQ(evoq_sgemm_packed(kNo, 1, 1, a.data(), k, bf16, 0, &y, n), 6);
  EXPECT_EQ(evoq_sgemm_packed(kNo, 1, 1, a.data(), k, nullptr, 0, &y, n), 6);
  EXPECT_EQ(y, 5);
  evoq_gemm_free(f32);
  evoq_gemm_free(bf16);
  evoq_gemm_free(s8);
  evoq_gemm_free(nullptr);
}

TEST(Gemm, PackedNamesTheWrongArgument) {
  const std::vector<float> b(12, 1), a(8, 1);
  std::vector<float> c(6, 7);
  evoq_packed* packed = nullptr;
  constexpr auto kNo = EVOQ_NO_TRANSPOSE, kWrong = static_cast<evoq_transpose>(7);
  EXPECT_EQ(evoq_sgemm_pack(kWrong, 3, 4, b.data(), 3, &packed), 1);
  EXPECT_EQ(evoq_sgemm_pack(kNo, -1, 4, b.data(), 3, &packed), 2);
  EXPECT_EQ(evoq_sgemm_pack(kNo, 3, -1, b.data(), 3, &packed), 3);
  EXPECT_EQ(evoq_sgemm_pack(kNo, 3, 4, nullptr, 3, &packed), 4);
  EXPECT_EQ(evoq_sgemm_pack(kNo, 3, 4, b.data(), 2, &packed), 5);
  EXPECT_EQ(evoq_sgemm_pack(kNo, 3, 4, b.data(), 3, nullptr), 6);
  EXPECT_EQ(evoq_sgemm_pack(kNo, 3, 4, b.data(), 2, nullptr), 5);
  EXPECT_EQ(packed, nullptr);
  ASSERT_EQ(evoq_sgemm_pack(kNo, 3, 4, b.data(), 3, &packed), 0);
  EXPECT_EQ(evoq_sgemm_packed(kWrong, 2, 1, a.data(), 4, packed, 0, c.data(), 3), 1);
  EXPECT_EQ(evoq_sgemm_packed(kNo, -2, 1, a.data(), 4, packed, 0, c.data(), 3), 2);
  EXPECT_EQ(evoq_sgemm_packed(kNo, 2, 1, nullptr, 4, packed, 0, c.data(), 3), 4);
  EXPECT_EQ(evoq_sgemm_packed(kNo, 2, 1, a.data(), 3, packed, 0, c.data(), 3), 5);
  EXPECT_EQ(evoq_sgemm_packed(kNo, 2, 1, a.data(), 4, packed, 0, nullptr, 3), 8);
  EXPECT_EQ(evoq_sgemm_packed(kNo, 2, 1, a.data(), 4, packed, 0, c.data(), 2), 9);
  EXPECT_EQ(evoq_sgemm_packed(kWrong, 2, 1, a.data(), 4, nullptr, 0, c.data(), 3), 1);
  EXPECT_EQ(evoq_sgemm_packed(kNo, -2, 1, a.data(), 4, nullptr, 0, nullptr, 2), 2);
  EXPECT_EQ(evoq_sgemm_packed(kNo, 2, 1, a.data(), 0, nullptr, 0, nullptr, 2), 5);
  EXPECT_EQ(evoq_sgemm_packed(kNo, 2, 1, a.data(), 4, nullptr, 0, nullptr, 0), 6);
  EXPECT_EQ(c, std::vector<float>(6, 7));
  EXPECT_EQ(evoq_sgemm_packed(kNo, 2, 1, a.data(), 4, packed, 0, c.data(), 3), 0);
  EXPECT_EQ(c, std::vector<float>(6, 4));
  evoq_gemm_free(packed);
  const std::vector<int8_t> bytes(12, 1);
  std::vector<int32_t> sums(6, 7);
  ASSERT_EQ(evoq_gemm_s8_pack(kNo, 3, 4, bytes.data(), 3, 0, &packed), 0);
  EXPECT_EQ(evoq_gemm_s8s8s32_packed(kNo, 2, nullptr, 4, 0, packed, 0, sums.data(), 3), 3);
  EXPECT_EQ(evoq_gemm_s8s8s32_packed(kNo, 2, bytes.data(), 3, 0, packed, 0, sums.data(), 3), 4);
  EXPECT_EQ(evoq_gemm_s8s8s32_packed(kNo, 2, bytes.data(), 4, 0, nullptr, 0, sums.data(), 3), 6);
  EXPECT_EQ(evoq_gemm_s8s8s32_packed(kNo, 2, bytes.data(), 4, 0, packed, 2, sums.data(), 3), 7);
  EXPECT_EQ(evoq_gemm_s8s8s32_packed(kNo, 2, bytes.data(), 4, 0, packed, 2, nullptr, 2), 7);
  EXPECT_EQ(evoq_gemm_s8s8s32_packed(kNo, 2, bytes.data(), 4, 0, packed, 0, sums.data(), 2), 9);
  EXPECT_EQ(sums, std::vector<int32_t>(6, 7));
  evoq_gemm_free(packed);
  EXPECT_EQ(evoq_gemm_s8_pack(kNo, 3, 4, bytes.data(), 3, 0, nullptr), 7);
  constexpr auto kRow = EVOQ_ROW_MAJOR;
  const auto call = [&](int wrong) {
    return evoq_gemm_s8s8s32(
        kRow, kNo, kNo, 2, 3, 4, wrong == 7 ? nullptr : bytes.data(), wrong == 8 ? 3 : 4, 0,
        wrong == 10 ? nullptr : bytes.data(), wrong == 11 ? 2 : 3, 0, wrong == 13 ? -1 : 0,
        wrong == 13 || wrong == 14 ? nullptr : sums.data(), wrong == 15 ? 2 : 3);
  };
  for (int argument : {7, 8, 10, 11, 13, 14, 15}) EXPECT_EQ(call(argument), argument);
  EXPECT_EQ(sums, std::vector<int32_t>(6, 7));
  EXPECT_EQ(call(0), 0);
  EXPECT_EQ(sums, std::vector<int32_t>(6, 4));
}

}  // namespace
