// Runs on memory of the caller: nothing is copied, and what does not fit is refused untouched.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>

#include "api/test_model.h"
#include "evoq/evoq.h"
#include "evoq/evoq_c.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

constexpr auto kFloat = ElementType::kFloat32;

// y = x + x, z = -x, for any number of rows.
constexpr char kTwo[] =
    "input %x: float32[N, 2]\na: %y: float32[N, 2] = Add(%x, %x)\n"
    "n: %z: float32[N, 2] = Neg(%x)\noutput %y\noutput %z\n";
// Where x is not 0, and its absolute values: the first one's size depends on data.
constexpr char kPlaces[] =
    "input %x: float32[N]\nnz: %i = NonZero(%x)\nr: %r = Abs(%x)\noutput %i\noutput %r\n";

Session Loaded(const ModelFile& file) {
  std::string error;
  auto session = Session::Load(file.path(), {1}, &error);
  EXPECT_TRUE(session) << error;
  return std::move(*session);
}

TEST(Views, OutputsAreWrittenWhereTheyShallBe) {
  const ModelFile file(kTwo);
  Session session = Loaded(file);
  std::string error;
  for (const int64_t n : {3, 1, 3}) {
    std::vector<float> x(2 * n), y(2 * n + 2, 7), z(2 * n + 2, 7);  // with a guard on each side
    std::iota(x.begin(), x.end(), 1.f);
    const std::vector<float> given = x;
    ASSERT_TRUE(session.RunOn({{kFloat, {n, 2}, x.data()}},
                              {{kFloat, {n, 2}, &y[1]}, {kFloat, {n, 2}, &z[1]}}, &error))
        << error;
    EXPECT_EQ(x, given);
    for (int64_t i = 0; i < 2 * n; ++i) {
      EXPECT_EQ(y[1 + i], 2 * x[i]);
      EXPECT_EQ(z[1 + i], -x[i]);
    }
    for (const std::vector<float>* out : {&y, &z}) {
      EXPECT_EQ(out->front(), 7);
      EXPECT_EQ(out->back(), 7);
    }
  }
}

TEST(Views, WhatDoesNotFitIsRefusedUntouched) {
  const ModelFile file(kTwo);
  Session session = Loaded(file);
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, y(4, 7), z(4, 7);
  const InputView in{kFloat, {2, 2}, x.data()};
  const OutputView first{kFloat, {2, 2}, y.data()}, second{kFloat, {2, 2}, z.data()};
  const auto refused = [&](const std::vector<InputView>& inputs,
                           const std::vector<OutputView>& outputs) {
    std::string error = "done";
    EXPECT_FALSE(session.RunOn(inputs, outputs, &error));
    EXPECT_EQ(y, std::vector<float>(4, 7)) << error;
    EXPECT_EQ(z, std::vector<float>(4, 7)) << error;
    return error;
  };
  const auto at = [](void* data, size_t bytes) {
    return static_cast<void*>(static_cast<std::byte*>(data) + bytes);
  };
  EXPECT_EQ(refused({}, {first, second}), "0 inputs given, expected 1");
  EXPECT_EQ(refused({in}, {first}), "1 outputs given, expected 2");
  EXPECT_EQ(refused({in}, {first, {ElementType::kInt32, {2, 2}, z.data()}}),
            "output z: element type 6, expected 1");
  EXPECT_EQ(refused({in}, {first, {kFloat, {4}, z.data()}}),
            "output z: shape [4], expected [2, 2]");
  EXPECT_EQ(refused({in}, {first, {kFloat, {2, 2}, nullptr}}), "output z: its data is null");
  EXPECT_EQ(refused({in}, {first, {kFloat, {2, 2}, at(z.data(), 1)}}),
            "output z: its data is not aligned to 4 bytes");
  EXPECT_EQ(refused({in}, {first, {kFloat, {2, 2}, at(y.data(), 12)}}), "outputs y and z overlap");
  EXPECT_EQ(refused({in}, {{kFloat, {2, 2}, &x[3]}, second}), "output y overlaps input x");
  EXPECT_EQ(refused({{kFloat, {2, 2}, at(x.data(), 2)}}, {first, second}),
            "input x: its data is not aligned to 4 bytes");
  EXPECT_EQ(refused({{kFloat, {2, 2}, nullptr}}, {first, second}),
            "input x: 16 bytes without data");
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  std::string error;
  EXPECT_TRUE(session.RunOn({in}, {{kFloat, {2, 2}, &x[4]}, second}, &error))
      << "beside the input: " << error;
  EXPECT_EQ(x[7], 8) << "4 + 4";
}

TEST(Views, ResultsInMemoryOfTheSession) {
  const ModelFile file(kTwo);
  Session session = Loaded(file);
  std::string error;
  EXPECT_TRUE(session.results().empty());
  const std::vector<float> x = {1, 2, 3, 4};
  ASSERT_TRUE(session.Compute({{kFloat, {2, 2}, x.data()}}, &error)) << error;
  ASSERT_EQ(session.results().size(), 2u);
  const void* const memory = session.results()[0].data<float>();
  EXPECT_EQ(session.results()[0].data<float>()[3], 8);
  EXPECT_EQ(session.results()[1].data<float>()[3], -4);
  ASSERT_TRUE(session.Compute({{kFloat, {2, 2}, x.data()}}, &error)) << error;
  EXPECT_EQ(session.results()[0].data<float>(), memory) << "the same memory again";
  EXPECT_FALSE(session.Compute({{kFloat, {2, 3}, x.data()}}, &error));
  EXPECT_TRUE(session.results().empty());
}

TEST(Views, SizesThatDependOnData) {
  const ModelFile file(kPlaces, /*planned=*/false);
  Session session = Loaded(file);
  std::string error;
  const std::vector<float> x = {0, -2, 5};
  const InputView in{kFloat, {3}, x.data()};
  ASSERT_TRUE(session.Compute({in}, &error)) << error;
  EXPECT_EQ(session.results()[0].shape, (std::vector<int64_t>{1, 2}));
  std::vector<int64_t> places(2, 7);
  std::vector<float> absolute(3, 7);
  const OutputView second{kFloat, {3}, absolute.data()};
  EXPECT_FALSE(session.RunOn({in}, {{ElementType::kInt64, {1, 1}, places.data()}, second}, &error));
  EXPECT_EQ(error, "output i: shape [1, 1], expected [1, 2]");
  EXPECT_EQ(absolute, std::vector<float>(3, 7));
  ASSERT_TRUE(session.RunOn({in}, {{ElementType::kInt64, {1, 2}, places.data()}, second}, &error))
      << error;
  EXPECT_EQ(places, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(absolute, (std::vector<float>{0, 2, 5}));
}

TEST(Views, CInterface) {
  const ModelFile file(kTwo);
  char error[200] = "";
  const std::unique_ptr<evoq_session, decltype(&evoq_session_free)> s(
      evoq_session_load(file.path().c_str(), 1, error, sizeof(error)), &evoq_session_free);
  ASSERT_NE(s, nullptr) << error;
  std::vector<float> x = {1, 2, 3, 4}, y(4, 7), z(4, 7);
  const int64_t shape[] = {2, 2};
  const evoq_array in{1, 2, shape, x.data()};
  evoq_array out[] = {{1, 2, shape, y.data()}, {1, 2, shape, z.data()}};
  const auto run = [&](const evoq_array* inputs, int count) {
    return evoq_session_run_on(s.get(), inputs, count, out, 2, error, sizeof(error));
  };
  ASSERT_EQ(run(&in, 1), 0) << error;
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(z, (std::vector<float>{-1, -2, -3, -4}));
  evoq_array result;
  EXPECT_EQ(evoq_session_result(s.get(), 0, &result), 1) << "the outputs are the caller's";
  EXPECT_EQ(run(nullptr, 1), 1);
  EXPECT_STREQ(error, "1 inputs without arrays");
  EXPECT_EQ(run(&in, -1), 1);
  out[1].rank = -1;
  EXPECT_EQ(run(&in, 1), 1);
  EXPECT_STREQ(error, "outputs 1: rank -1 without a shape");
  out[1] = {1, 2, shape, x.data()};
  EXPECT_EQ(run(&in, 1), 1);
  EXPECT_STREQ(error, "output z overlaps input x");
  const evoq_array odd{1, 2, shape, reinterpret_cast<std::byte*>(x.data()) + 1};
  EXPECT_EQ(run(&odd, 1), 1);
  EXPECT_STREQ(error, "input 0: its data is not aligned to 4 bytes");
  EXPECT_EQ(evoq_session_run_on(nullptr, &in, 1, out, 2, error, sizeof(error)), 1);
}

// Memory that is mapped for a test.
struct Mapped {
  explicit Mapped(size_t bytes, int protection)
      : bytes(bytes),
        data(::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                    0)) {}
  ~Mapped() { ::munmap(data, bytes); }
  const size_t bytes;
  void* const data;
};

// Largest resident memory since the last Reset, in bytes; 0 where the system does not tell.
int64_t PeakResident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::strtoll(&line[6], nullptr, 10);
  }
  return 0;
}
bool ResetPeak() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5"); }

// Of 64 MB in and 64 MB out, only the output's pages come to be: the input's are pages of zeros
// that nobody wrote.
TEST(Views, NothingIsCopied) {
#ifdef EVOQ_SANITIZED
  GTEST_SKIP() << "a sanitizer's memory counts too";
#endif
  constexpr int64_t kElements = 16 << 20, kBytes = 4 * kElements;
  const ModelFile file("input %x: float32[N]\nr: %y: float32[N] = Relu(%x)\noutput %y\n");
  Session session = Loaded(file);
  const Mapped in(kBytes, PROT_READ), out(kBytes, PROT_READ | PROT_WRITE);
  ASSERT_NE(in.data, MAP_FAILED);
  ASSERT_NE(out.data, MAP_FAILED);
  if (!ResetPeak() || PeakResident() == 0) GTEST_SKIP() << "the system does not tell";
  const int64_t before = PeakResident();
  std::string error;
  ASSERT_TRUE(
      session.RunOn({{kFloat, {kElements}, in.data}}, {{kFloat, {kElements}, out.data}}, &error))
      << error;
  EXPECT_LT(PeakResident() - before, kBytes + kBytes / 2);
  EXPECT_GT(PeakResident() - before, kBytes / 2) << "the measurement sees an array";
}

}  // namespace
}  // namespace evoq
