// What /metrics says of a model, figure by figure.
#include "serve/metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "models/models.h"
#include "program/etm.h"
#include "reference/test_graph.h"

namespace evoq::serve {
namespace {

class MetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "evoq_metrics";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const auto model =
        LowerAndPack(Parsed("input %x: float32[\"N\", 4]\n"
                            "a: %y: float32[\"N\", 4] = Neg(%x)\noutput %y\n"));
    ASSERT_TRUE(model) << model.error().message();
    ASSERT_TRUE(WriteEtm(*model, folder_ + "/m.etm"));
    auto opened = Repository::Open(folder_, {}, {.threads = 1}, [](auto&&...) {});
    ASSERT_TRUE(opened) << opened.error().message();
    repository_ = std::move(*opened);
    ASSERT_TRUE(repository_->Load("m"));
    model_ = *repository_->Find("m");
  }
  void TearDown() override {
    model_.reset();
    repository_.reset();
    std::filesystem::remove_all(folder_);
  }
  // The number behind `name`{model="m",version="1"`more`}.
  double Of(const std::string& name, const std::string& more = "") const {
    const std::string page = MetricsPage(*repository_, nullptr),
                      begin = "\n" + name + "{model=\"m\",version=\"1\"" + more + "} ";
    const size_t at = page.find(begin);
    EXPECT_NE(at, std::string::npos) << begin << page;
    return at == std::string::npos ? -1 : std::stod(page.substr(at + begin.size()));
  }
  std::string folder_;
  std::unique_ptr<Repository> repository_;
  std::shared_ptr<ServedModel> model_;
};

TEST_F(MetricsTest, TimesOfRequests) {
  for (const double seconds : {0.0004, 1.0, 3.0, 20.0}) {
    InferenceTimes times;
    times.queue_ns = 100'000;
    times.infer_ns = static_cast<int64_t>(seconds * 1e9) - times.queue_ns;
    model_->statistics().Succeeded(2, times);
  }
  model_->statistics().Failed(Why::kOverloaded, 0);
  EXPECT_EQ(Of("nv_inference_request_success"), 4);
  EXPECT_EQ(Of("nv_inference_count"), 8);
  EXPECT_EQ(Of("nv_inference_request_failure", ",reason=\"overloaded\""), 1);
  EXPECT_EQ(Of("nv_inference_request_duration_us"), 24'000'400);
  EXPECT_EQ(Of("nv_inference_queue_duration_us"), 400);
  EXPECT_EQ(Of("nv_inference_compute_infer_duration_us"), 24'000'000);
  // How many took so long at most.
  const std::pair<const char*, int> buckets[] = {{"0.0005", 1}, {"0.5", 1}, {"1", 2},   {"2", 2},
                                                 {"5", 3},      {"10", 3},  {"+Inf", 4}};
  for (const auto& [most, count] : buckets)
    EXPECT_EQ(Of("evoq_request_seconds_bucket", fmt::format(",le=\"{}\"", most)), count) << most;
  EXPECT_EQ(Of("evoq_request_seconds_count"), 4);
  EXPECT_NEAR(Of("evoq_request_seconds_sum"), 24.0004, 1e-9);
}

TEST_F(MetricsTest, RunsOfSizesThatCame) {
  std::promise<bool> ran;
  Inference inference;
  inference.inputs = {Tensor::Allocate(TensorType(DType::kFloat32, Shape{3, 4}))};
  inference.done = [&](Served<Tensors> outputs, const InferenceTimes&) {
    ran.set_value(outputs.has_value());
  };
  ASSERT_TRUE(model_->Infer(inference));
  ASSERT_TRUE(ran.get_future().get());
  const auto gears = model_->gears();
  ASSERT_TRUE(gears);
  ASSERT_GT(gears->miss_ms, 0);
  EXPECT_EQ(Of("evoq_gear_misses"), 1);
  EXPECT_NEAR(Of("evoq_gear_miss_us"), 1000 * gears->miss_ms, 1e-3);
}

}  // namespace
}  // namespace evoq::serve
