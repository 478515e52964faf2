// Sessions whose scale sets follow the input, in C++ and in C.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "evoq/evoq.h"
#include "evoq/evoq_c.h"
#include "models/models.h"
#include "program/etm.h"

namespace evoq {
namespace {

class AdaptiveSession : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ =
        (std::filesystem::temp_directory_path() / fmt::format("evoq_adaptive_{}.etm", ::getpid()))
            .string();
    auto graph = ParseGraph(R"(input %x: float32[1, 64]
q: %q: uint8[1, 64](scale 1, zero 0) = QuantizeLinear(%x)
d: %y: float32[1, 64] = DequantizeLinear(%q)
output %y)");
    Model model = LowerAndPack(std::move(*graph)).value();
    const auto fine = std::make_shared<const QuantParams>(QuantParams::PerTensor(0.25f, 0));
    model.sets = {{"wide", 1, {}}, {"fine", 1, {{"q", fine, {}}}}};
    ASSERT_TRUE(WriteEtm(model, path_));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

Array Of(float value) {
  Array array = Array::Zeros(ElementType::kFloat32, {1, 64});
  std::fill_n(array.data<float>(), 64, value);
  return array;
}

TEST_F(AdaptiveSession, FollowsTheInputAndTellsOfIt) {
  SessionOptions options{1};
  options.adaptive = AdaptiveSettings{.narrow_after = 2, .look_every = 1};
  std::string error;
  auto session = Session::Load(path_, options, &error);
  ASSERT_TRUE(session) << error;
  std::vector<Array> outputs;
  const auto run = [&](float value) {
    EXPECT_TRUE(session->Run({Of(value)}, &outputs, &error)) << error;
    return outputs[0].data<float>()[0];
  };
  EXPECT_EQ(run(10.25f), 10);
  EXPECT_EQ(run(10.25f), 10);
  EXPECT_EQ(run(10.25f), 10.25f);
  EXPECT_EQ(run(200), 63.75f);  // clipped: the next run is wide again
  EXPECT_EQ(run(200), 200);
  const std::optional<AdaptiveReport> report = session->adaptive();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->sets, (std::vector<std::string>{"wide", "fine"}));
  EXPECT_EQ(report->switches, 2);
  EXPECT_EQ(report->runs_by_set, (std::vector<std::int64_t>{3, 2}));
  ASSERT_EQ(report->tensors.size(), 1u);
  EXPECT_EQ(report->tensors[0].seen, 5 * 64);
  EXPECT_EQ(report->tensors[0].clipped, 64);
  ASSERT_TRUE(session->PinScaleSet("fine", &error)) << error;
  EXPECT_EQ(run(200), 63.75f);
  EXPECT_EQ(run(200), 63.75f);
  EXPECT_FALSE(session->PinScaleSet("night", &error));
  EXPECT_EQ(error, "it has no scale set night: wide, fine");
  auto plain = Session::Load(path_, {1}, &error);
  ASSERT_TRUE(plain) << error;
  EXPECT_FALSE(plain->adaptive());
  EXPECT_FALSE(plain->PinScaleSet("fine", &error));
}

TEST_F(AdaptiveSession, InC) {
  char error[256] = "";
  const evoq_adaptive_settings settings = {0, 0, 1, 1, nullptr};
  evoq_session* const session =
      evoq_session_load_adaptive(path_.c_str(), 1, &settings, error, sizeof(error));
  ASSERT_NE(session, nullptr) << error;
  EXPECT_EQ(evoq_session_scale_set_count(session), 2);
  EXPECT_STREQ(evoq_session_scale_set_name(session, 1), "fine");
  EXPECT_EQ(evoq_session_scale_set_name(session, 2), nullptr);
  EXPECT_EQ(evoq_session_scale_set(session), 0);
  Array x = Of(10.25f);
  const evoq_array input = {1, 2, x.shape.data(), x.bytes.data()};
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(evoq_session_compute(session, &input, 1, error, sizeof(error)), 0) << error;
  EXPECT_EQ(evoq_session_scale_set(session), 1);
  EXPECT_EQ(evoq_session_scale_set_switches(session), 1);
  ASSERT_EQ(evoq_session_watched_count(session), 1);
  EXPECT_NE(evoq_session_watched_name(session, 0), nullptr);
  EXPECT_EQ(evoq_session_clip_rate(session, 0), 0);
  EXPECT_EQ(evoq_session_clip_rate(session, 1), -1);
  EXPECT_EQ(evoq_session_pin_scale_set(session, "wide", error, sizeof(error)), 0);
  EXPECT_EQ(evoq_session_scale_set(session), 0);
  EXPECT_EQ(evoq_session_pin_scale_set(session, "night", error, sizeof(error)), 1);
  evoq_session_free(session);
  evoq_session* const plain = evoq_session_load(path_.c_str(), 1, error, sizeof(error));
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(evoq_session_scale_set(plain), -1);
  EXPECT_EQ(evoq_session_scale_set_count(plain), 0);
  evoq_session_free(plain);
}

}  // namespace
}  // namespace evoq
