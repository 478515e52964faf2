// What is refused stays refused and leaves nothing behind, through both interfaces.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>

#include "api/test_model.h"
#include "base/memory.h"
#include "evoq/evoq.h"
#include "evoq/evoq_c.h"

namespace evoq {
namespace {

// y = x + [1, -1], for any number of rows.
constexpr char kAdd[] =
    "input %x: float32[N, 2]\nconst %b: float32[2] = [1.0, -1.0]\n"
    "add: %y: float32[N, 2] = Add(%x, %b)\noutput %y\n";

Array Rows(int64_t rows, int64_t columns) {
  Array x = Array::Zeros(ElementType::kFloat32, {rows, columns});
  for (size_t i = 0; i < x.size(); ++i) x.data<float>()[i] = static_cast<float>(10 * i);
  return x;
}

void ExpectGood(Session& session, int64_t rows) {
  std::vector<Array> outputs;
  std::string error;
  ASSERT_TRUE(session.Run({Rows(rows, 2)}, &outputs, &error)) << error;
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{rows, 2}));
  for (int64_t i = 0; i < 2 * rows; ++i)
    EXPECT_EQ(outputs[0].data<float>()[i], static_cast<float>(10 * i + (i % 2 == 0 ? 1 : -1)));
}

// Each of these is refused, whatever came before it and however often it comes.
TEST(Refusal, AShapeThatFailsIsNotKept) {
  const ModelFile file(kAdd);
  for (const bool good_first : {true, false}) {
    auto session = Session::Load(file.path(), {1});
    ASSERT_TRUE(session);
    if (good_first) ExpectGood(*session, 3);
    for (int again = 0; again < 3; ++again) {
      // The same call again is the one that would find what the first has kept.
      for (const auto& [rows, columns] :
           {std::pair{1, 3}, {1, 3}, {3, 1}, {3, 1}, {2, 3}, {1, 1}, {1, 1}, {1, 1}}) {
        std::vector<Array> outputs;
        std::string error;
        EXPECT_FALSE(session->Run({Rows(rows, columns)}, &outputs, &error));
        EXPECT_NE(error.find("x"), std::string::npos) << error;
      }
    }
    for (int64_t rows : {3, 1, 3}) ExpectGood(*session, rows);
  }
}

// 2^34 rows are 2^37 bytes in and out: less than a value may have, more than this machine has.
TEST(Refusal, FirstShapesTooLargeForTheMachine) {
  if (MemoryLimitBytes() >= int64_t{1} << 38) GTEST_SKIP() << "256 GB of memory";
  for (const bool planned : {true, false}) {
    const ModelFile file(kAdd, planned);
    evoq_session* s = evoq_session_load(file.path().c_str(), 1, nullptr, 0);
    ASSERT_NE(s, nullptr);
    float x[] = {5, 6}, y[2] = {};
    const int64_t small[] = {1, 2};
    const evoq_array good = {1, 2, small, x}, out = {1, 2, small, y};
    for (const int64_t rows : {int64_t{1} << 34, int64_t{1} << 41, int64_t{1} << 62}) {
      for (int again = 0; again < 2; ++again) {
        const int64_t sizes[] = {rows, 2};
        const evoq_array in = {1, 2, sizes, x};
        char error[200] = "";
        EXPECT_NE(evoq_session_compute(s, &in, 1, error, sizeof(error)), 0) << rows;
        EXPECT_STRNE(error, "");
        evoq_array result;
        EXPECT_NE(evoq_session_result(s, 0, &result), 0) << "no run, no result";
      }
    }
    ASSERT_EQ(evoq_session_run(s, &good, 1, &out, 1, nullptr, 0), 0);
    EXPECT_EQ(y[0], 6);
    EXPECT_EQ(y[1], 5);
    evoq_session_free(s);
  }
}

TEST(Refusal, CInterfaceAfterAGoodRun) {
  const ModelFile file(kAdd);
  evoq_session* s = evoq_session_load(file.path().c_str(), 1, nullptr, 0);
  ASSERT_NE(s, nullptr);
  float x[] = {1, 2, 3, 4, 5, 6}, y[6] = {};
  const int64_t three[] = {3, 2}, wrong[] = {1, 3};
  const evoq_array good = {1, 2, three, x}, bad = {1, 2, wrong, x}, out = {1, 2, three, y};
  ASSERT_EQ(evoq_session_run(s, &good, 1, &out, 1, nullptr, 0), 0);
  for (int again = 0; again < 3; ++again) {
    EXPECT_NE(evoq_session_compute(s, &bad, 1, nullptr, 0), 0);
    evoq_array result;
    EXPECT_NE(evoq_session_result(s, 0, &result), 0);
    EXPECT_NE(evoq_session_run(s, &bad, 1, &out, 1, nullptr, 0), 0);
  }
  ASSERT_EQ(evoq_session_compute(s, &good, 1, nullptr, 0), 0);
  evoq_array result;
  ASSERT_EQ(evoq_session_result(s, 0, &result), 0);
  EXPECT_EQ(result.type, 1);
  ASSERT_EQ(result.rank, 2);
  EXPECT_EQ(result.shape[0], 3);
  EXPECT_EQ(static_cast<const float*>(result.data)[5], 5);
  evoq_session_free(s);
}

// The outputs are written all or not at all.
TEST(Refusal, COutputsOfAnotherTypeOrShape) {
  const ModelFile file(
      "input %x: float32[2]\nadd: %y: float32[2] = Add(%x, %x)\n"
      "c: %z: int32[2] = Cast{to=6}(%x)\noutput %y\noutput %z\n");
  evoq_session* s = evoq_session_load(file.path().c_str(), 1, nullptr, 0);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(evoq_session_input_type(s, 0), 1);
  EXPECT_EQ(evoq_session_output_type(s, 0), 1);
  EXPECT_EQ(evoq_session_output_type(s, 1), 6);
  EXPECT_EQ(evoq_session_output_type(s, 2), 0);
  EXPECT_EQ(evoq_session_input_type(s, -1), 0);
  float x[] = {3, 4}, y[2] = {};
  int32_t z[2] = {};
  const int64_t two[] = {2}, three[] = {3}, row[] = {1, 2};
  const evoq_array in = {1, 1, two, x};
  char error[200];
  const auto run = [&](evoq_array first, evoq_array second) {
    const evoq_array out[] = {first, second};
    return evoq_session_run(s, &in, 1, out, 2, error, sizeof(error));
  };
  const evoq_array to_y = {1, 1, two, y}, to_z = {6, 1, two, z};
  // int32 and float32, float32 and uint32 have as many bytes.
  EXPECT_NE(run({6, 1, two, y}, to_z), 0);
  EXPECT_NE(std::string(error).find("output y: element type 6, expected 1"), std::string::npos)
      << error;
  EXPECT_NE(run(to_y, {1, 1, two, z}), 0);
  EXPECT_NE(run(to_y, {12, 1, two, z}), 0);
  EXPECT_NE(run(to_y, {6, 1, three, z}), 0);
  EXPECT_NE(run(to_y, {6, 2, row, z}), 0);
  EXPECT_NE(run(to_y, {6, 0, two, z}), 0);
  EXPECT_NE(run(to_y, {6, -1, two, z}), 0);
  EXPECT_NE(run(to_y, {6, 1, nullptr, z}), 0);
  EXPECT_NE(run(to_y, {6, 1, two, nullptr}), 0);
  EXPECT_NE(evoq_session_run(s, &in, 1, &to_y, 1, error, sizeof(error)), 0);
  EXPECT_NE(evoq_session_run(s, &in, 1, nullptr, 2, error, sizeof(error)), 0);
  EXPECT_NE(evoq_session_run(s, &in, 1, &to_y, -1, error, sizeof(error)), 0);
  EXPECT_EQ(y[0], 0) << "a refused run has written an output";
  EXPECT_EQ(z[0], 0);
  EXPECT_EQ(run(to_y, to_z), 0) << error;
  EXPECT_EQ(y[1], 8);
  EXPECT_EQ(z[1], 4);
  evoq_session_free(s);
}

TEST(Refusal, CInputsThatAreNone) {
  const ModelFile file(kAdd);
  char error[200];
  EXPECT_EQ(evoq_session_load(nullptr, 1, error, sizeof(error)), nullptr);
  EXPECT_STREQ(error, "the path is NULL");
  for (const int threads : {-1, 1025, std::numeric_limits<int>::max()})
    EXPECT_EQ(evoq_session_load(file.path().c_str(), threads, error, sizeof(error)), nullptr);
  evoq_session* s = evoq_session_load(file.path().c_str(), 1, nullptr, 0);
  ASSERT_NE(s, nullptr);
  float x[] = {1, 2};
  const int64_t sizes[] = {1, 2}, negative[] = {1, -2}, twice_negative[] = {-1, -2},
                none[] = {0, 2};
  const auto compute = [&](evoq_array in) {
    return evoq_session_compute(s, &in, 1, error, sizeof(error));
  };
  EXPECT_NE(compute({1, -1, sizes, x}), 0);
  EXPECT_NE(compute({1, 2, nullptr, x}), 0);
  EXPECT_NE(compute({1, 2, sizes, nullptr}), 0);
  EXPECT_NE(compute({1, 2, negative, x}), 0);
  EXPECT_NE(compute({1, 2, twice_negative, x}), 0);
  EXPECT_NE(compute({6, 2, sizes, x}), 0);
  EXPECT_NE(compute({8, 2, sizes, x}), 0);
  EXPECT_NE(compute({0, 2, sizes, x}), 0);
  EXPECT_NE(evoq_session_compute(s, nullptr, 1, error, sizeof(error)), 0);
  EXPECT_NE(evoq_session_compute(s, nullptr, 0, error, sizeof(error)), 0);
  EXPECT_NE(evoq_session_compute(s, nullptr, -1, error, sizeof(error)), 0);
  EXPECT_NE(evoq_session_compute(nullptr, nullptr, 0, error, sizeof(error)), 0);
  EXPECT_EQ(compute({1, 2, none, nullptr}), 0) << "no rows, no data: " << error;
  EXPECT_EQ(compute({1, 2, sizes, x}), 0) << error;
  evoq_array result;
  EXPECT_NE(evoq_session_result(s, 1, &result), 0);
  EXPECT_NE(evoq_session_result(s, -1, &result), 0);
  EXPECT_NE(evoq_session_result(s, 0, nullptr), 0);
  EXPECT_EQ(evoq_session_result(s, 0, &result), 0);
  // Sentences are cut to the room that there is.
  char little[5] = "****";
  EXPECT_NE(evoq_session_compute(s, nullptr, 0, little, sizeof(little)), 0);
  EXPECT_STREQ(little, "0 in");
  EXPECT_NE(evoq_session_compute(s, nullptr, 0, little, 0), 0);
  EXPECT_STREQ(little, "0 in");
  evoq_session_free(s);
  evoq_session_free(nullptr);
}

// Names hold what they like; what is told of them is UTF-8 without control characters, through both
// interfaces, and cut between characters.
TEST(Refusal, ErrorsAreFitForATerminal) {
  const std::string path = "/nowhere/\u00e4\x1b[31m\n\xff";
  std::string error;
  EXPECT_FALSE(Session::Load(path, {1}, &error));
  EXPECT_TRUE(error.starts_with("/nowhere/\u00e4\\u001b[31m\\n\\xff: ")) << error;
  char c_error[300];
  EXPECT_EQ(evoq_session_load(path.c_str(), 1, c_error, sizeof(c_error)), nullptr);
  EXPECT_EQ(c_error, error);
  // "/nowhere/" has 9 bytes, the letter after it 2.
  for (const auto& [size, text] : {std::pair{10, "/nowhere/"},
                                   {11, "/nowhere/"},
                                   {12, "/nowhere/\u00e4"},
                                   {13, "/nowhere/\u00e4\\"}}) {
    EXPECT_EQ(evoq_session_load(path.c_str(), 1, c_error, size), nullptr);
    EXPECT_STREQ(c_error, text) << size;
  }
}

// A pointer into the middle of a message, say.
TEST(Refusal, CInputsNeedNoAlignment) {
  const ModelFile file(kAdd);
  evoq_session* s = evoq_session_load(file.path().c_str(), 1, nullptr, 0);
  ASSERT_NE(s, nullptr);
  alignas(8) char message[16];
  const float x[] = {5, 6};
  std::memcpy(message + 1, x, sizeof(x));
  float y[2];
  const int64_t sizes[] = {1, 2};
  const evoq_array in = {1, 2, sizes, message + 1}, out = {1, 2, sizes, y};
  ASSERT_EQ(evoq_session_run(s, &in, 1, &out, 1, nullptr, 0), 0);
  EXPECT_EQ(y[0], 6);
  EXPECT_EQ(y[1], 5);
  evoq_session_free(s);
}

TEST(Refusal, ArraysWhoseBytesAreNotTheirShapes) {
  const ModelFile file(kAdd);
  auto session = Session::Load(file.path(), {1});
  ASSERT_TRUE(session);
  std::vector<Array> outputs;
  std::string error;
  const auto run = [&](std::vector<int64_t> shape, size_t bytes) {
    Array x;
    x.shape = std::move(shape);
    x.bytes.resize(bytes);
    return session->Run({x}, &outputs, &error);
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_FALSE(run({1, 2}, 7));
  EXPECT_EQ(error, "input x: 7 bytes for shape [1, 2], expected 8");
  EXPECT_FALSE(run({1, 2}, 9));
  EXPECT_FALSE(run({1, 2}, 0));
  EXPECT_FALSE(run({-1, -2}, 8));
  EXPECT_FALSE(run({kHuge, 4}, 0)) << "the product is 2^64";
  EXPECT_FALSE(run({kHuge, 2}, 0)) << "the bytes are 2^65";
  EXPECT_TRUE(run({1, 2}, 8)) << error;
  EXPECT_FALSE(session->Run({Rows(1, 2)}, nullptr, &error));
  EXPECT_FALSE(session->Run({Rows(1, 2), Rows(1, 2)}, &outputs, &error));
  std::vector<Array> both = {Rows(1, 2)};
  EXPECT_FALSE(session->Run(both, &both, &error));
  ExpectGood(*session, 2);
}

TEST(Refusal, BoolsAreZeroOrOne) {
  const ModelFile file("input %c: bool[3]\nn: %d: bool[3] = Not(%c)\noutput %d\n");
  auto session = Session::Load(file.path(), {1});
  ASSERT_TRUE(session);
  std::vector<Array> outputs;
  std::string error;
  Array c = Array::Zeros(ElementType::kBool, {3});
  c.bytes[1] = std::byte{1};
  ASSERT_TRUE(session->Run({c}, &outputs, &error)) << error;
  EXPECT_EQ(outputs[0].bytes, (std::vector<std::byte>{std::byte{1}, std::byte{0}, std::byte{1}}));
  for (const int bad : {2, 128, 255}) {
    c.bytes[2] = static_cast<std::byte>(bad);
    EXPECT_FALSE(session->Run({c}, &outputs, &error));
    EXPECT_EQ(error, fmt::format("input c: byte 2 of a bool array is {}, expected 0 or 1", bad));
  }
}

// A step that refuses its data (an index out of range) leaves the session as it was.
TEST(Refusal, DataThatAStepRefuses) {
  const ModelFile file(
      "input %x: float32[2]\ninput %i: int64[1, 1]\ng: %y: float32[1] = GatherND(%x, %i)\n"
      "output %y\n");
  auto session = Session::Load(file.path(), {1});
  ASSERT_TRUE(session);
  Array x = Array::Zeros(ElementType::kFloat32, {2}), i = Array::Zeros(ElementType::kInt64, {1, 1});
  x.data<float>()[1] = 7;
  std::vector<Array> outputs;
  std::string error;
  for (int again = 0; again < 2; ++again) {
    i.data<int64_t>()[0] = 5;
    EXPECT_FALSE(session->Run({x, i}, &outputs, &error));
    i.data<int64_t>()[0] = 1;
    ASSERT_TRUE(session->Run({x, i}, &outputs, &error)) << error;
    EXPECT_EQ(outputs[0].data<float>()[0], 7);
  }
}

// A model whose sizes depend on its data, refused and run in turn.
TEST(Refusal, InRegions) {
  const ModelFile file(
      "input %x: float32[N, 2]\nnz: %i = NonZero(%x)\n"
      "const %b: float32[2] = [1.0, -1.0]\nadd: %y = Add(%x, %b)\noutput %i\noutput %y\n",
      /*planned=*/false);
  for (const bool good_first : {true, false}) {
    auto session = Session::Load(file.path(), {1});
    ASSERT_TRUE(session);
    const auto good = [&] {
      std::vector<Array> outputs;
      std::string error;
      ASSERT_TRUE(session->Run({Rows(2, 2)}, &outputs, &error)) << error;
      EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{2, 3}));  // 0, 10, 20, 30: three are not 0
      EXPECT_EQ(outputs[1].data<float>()[3], 29);
    };
    if (good_first) good();
    for (int again = 0; again < 3; ++again) {
      std::vector<Array> outputs;
      EXPECT_FALSE(session->Run({Rows(1, 3)}, &outputs));
    }
    good();
  }
}

TEST(Refusal, SeveralSessionsAtOnce) {
  const ModelFile file(kAdd);
  std::vector<std::thread> threads;
  for (int64_t rows = 1; rows <= 4; ++rows) {
    threads.emplace_back([&, rows] {
      auto session = Session::Load(file.path(), {2});
      ASSERT_TRUE(session);
      for (int run = 0; run < 20; ++run) {
        std::vector<Array> outputs;
        EXPECT_FALSE(session->Run({Rows(rows, 3)}, &outputs));
        ExpectGood(*session, rows + run % 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace evoq
