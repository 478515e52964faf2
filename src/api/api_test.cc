#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "engine/engine.h"
#include "evoq/evoq.h"
#include "evoq/evoq_c.h"
#include "program/etm.h"

namespace evoq {
namespace {

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("evoq_api_{}.etm", ::getpid())).string();
    auto graph = ParseGraph(
        "input %x: float32[N, 2]\nconst %b: float32[2] = [1.0, -1.0]\nadd: %y: float32[N, 2] = Add(%x, %b)\noutput %y\n");
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

}  // namespace
}  // namespace evoq
