#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "evoq/evoq.h"
#include "evoq/evoq_c.h"
#include "models/models.h"
#include "program/etm.h"

namespace evoq {
namespace {

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("evoq_api_{}.etm", ::getpid()))
                .string();
    auto graph = ParseGraph(
        "input %x: float32[N, 2]\nconst %b: float32[2] = [1.0, -1.0]\nadd: %y: float32[N, 2] = "
        "Add(%x, %b)\noutput %y\n");
    ASSERT_TRUE(graph) << graph.error().message();
    auto model = LowerAndPack(std::move(*graph));
    ASSERT_TRUE(model) << model.error().message();
    ASSERT_TRUE(WriteEtm(*model, path_));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(ApiTest, RunsAtAnyBatch) {
  std::string error;
  auto session = Session::Load(path_, {1}, &error);
  ASSERT_TRUE(session) << error;
  ASSERT_EQ(session->inputs().size(), 1u);
  EXPECT_EQ(session->inputs()[0].name, "x");
  EXPECT_EQ(session->inputs()[0].shape, (std::vector<int64_t>{-1, 2}));
  std::vector<Array> outputs;
  for (int64_t n : {1, 3, 1}) {
    Array x = Array::Zeros(ElementType::kFloat32, {n, 2});
    x.data<float>()[0] = 5;
    ASSERT_TRUE(session->Run({x}, &outputs, &error)) << error;
    EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{n, 2}));
    EXPECT_EQ(outputs[0].data<float>()[0], 6);
    EXPECT_EQ(outputs[0].data<float>()[1], -1);
  }
}

TEST_F(ApiTest, ErrorsSayWhy) {
  std::string error;
  EXPECT_FALSE(Session::Load("/nowhere.etm", {}, &error));
  EXPECT_NE(error.find("/nowhere.etm"), std::string::npos);
  auto session = Session::Load(path_, {1}, &error);
  ASSERT_TRUE(session);
  std::vector<Array> outputs;
  EXPECT_FALSE(session->Run({}, &outputs, &error));
  EXPECT_EQ(error, "0 inputs given, expected 1");
  EXPECT_FALSE(session->Run({Array::Zeros(ElementType::kFloat32, {1, 3})}, &outputs, &error));
  EXPECT_NE(error.find("x"), std::string::npos) << error;
}

TEST_F(ApiTest, CInterface) {
  char error[200] = "";
  EXPECT_EQ(evoq_session_load("/nowhere.etm", 1, error, sizeof(error)), nullptr);
  EXPECT_NE(std::string(error).find("/nowhere.etm"), std::string::npos);
  evoq_session* session = evoq_session_load(path_.c_str(), 1, error, sizeof(error));
  ASSERT_NE(session, nullptr) << error;
  EXPECT_EQ(evoq_session_input_count(session), 1);
  EXPECT_STREQ(evoq_session_output_name(session, 0), "y");
  EXPECT_EQ(evoq_session_output_name(session, 1), nullptr);
  int64_t shape[2] = {};
  EXPECT_EQ(evoq_session_input_shape(session, 0, shape, 2), 2);
  EXPECT_EQ(shape[1], 2);
  float x[] = {1, 2}, y[] = {0, 0};
  const int64_t sizes[] = {1, 2}, wrong[] = {2, 1};
  const evoq_array in = {1, 2, sizes, x}, out = {1, 2, sizes, y}, bad = {1, 2, wrong, y};
  EXPECT_EQ(evoq_session_run(session, &in, 1, &out, 1, error, sizeof(error)), 0) << error;
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(y[1], 1);
  EXPECT_NE(evoq_session_run(session, &in, 1, &bad, 1, error, sizeof(error)), 0);
  evoq_session_free(session);
}

// Sizes that depend on data, and a subgraph: NonZero and an If.
TEST_F(ApiTest, OutputsOfAnySize) {
  auto graph = ParseGraph(
      "input %x: float32[N]\ninput %c: bool[]\nnz: %i = NonZero(%x)\nif: %y = If(%c, %x)\n"
      "| graph \"then\"\n| input %a: float32[...]\n| t: %b = Mul(%a, %a)\n| output %b\n"
      "| graph \"else\"\n| input %a: float32[...]\n| e: %b = Neg(%a)\n| output %b\noutput "
      "%i\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(RunPasses(*graph, Stage::kOptimize));
  Model model;
  model.graph = *graph;
  ASSERT_TRUE(WriteEtm(model, path_));
  std::string error;
  auto session = Session::Load(path_, {1}, &error);
  ASSERT_TRUE(session) << error;
  std::vector<Array> outputs;
  for (int64_t zeros : {0, 3, 1, 4}) {
    Array x = Array::Zeros(ElementType::kFloat32, {4}), c = Array::Zeros(ElementType::kBool, {});
    for (int64_t i = zeros; i < 4; ++i) x.data<float>()[i] = static_cast<float>(i + 1);
    c.bytes[0] = static_cast<std::byte>(zeros % 2);
    ASSERT_TRUE(session->Run({x, c}, &outputs, &error)) << error;
    EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{1, 4 - zeros}));
    for (int64_t i = zeros; i < 4; ++i) {
      EXPECT_EQ(outputs[0].data<int64_t>()[i - zeros], i);
      EXPECT_EQ(outputs[1].data<float>()[i],
                zeros % 2 ? static_cast<float>((i + 1) * (i + 1)) : static_cast<float>(-i - 1));
    }
  }
  evoq_session* c_session = evoq_session_load(path_.c_str(), 1, nullptr, 0);
  ASSERT_NE(c_session, nullptr);
  float x[] = {0, 2, 0};
  bool c = true;
  const int64_t size[] = {3};
  const evoq_array in[] = {{1, 1, size, x}, {9, 0, size, &c}};
  EXPECT_EQ(evoq_session_compute(c_session, in, 2, nullptr, 0), 0);
  evoq_array found;
  ASSERT_EQ(evoq_session_result(c_session, 0, &found), 0);
  EXPECT_EQ(found.shape[1], 1);
  EXPECT_EQ(static_cast<const int64_t*>(found.data)[0], 1);
  EXPECT_NE(evoq_session_result(c_session, 2, &found), 0);
  evoq_session_free(c_session);
}

}  // namespace
}  // namespace evoq
