// A small net with samples and calibrated ranges, and steps of planted speed: for the tests of this
// room.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "certify/choose.h"
#include "onnx/onnx.h"
#include "quant/test_net.h"

namespace evoq {

class ConvNetTest : public ::testing::Test {
 protected:
  explicit ConvNetTest(int samples) {
    for (int i = 0; i < samples; ++i) samples_.inputs.push_back({RandomInput(net_, i)});
    samples_.labels.resize(samples_.inputs.size());
  }
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    ASSERT_TRUE(ExportOnnx(net_, At("net.onnx")));
    const auto each = [this](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
      for (const auto& inputs : samples_.inputs) EVOQ_TRY(use(inputs));
      return {};
    };
    auto ranges = Calibrate(net_, Reference(), each, {});
    ASSERT_TRUE(ranges) << ranges.error().message();
    ranges_ = *ranges;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }

  // A search on one thread, as measured here.
  ChooseJob Search() const {
    ChooseJob job;
    job.graph = net_;
    job.ranges = ranges_;
    job.threads = 1;
    return job;
  }
  // In this search every int8 step takes `int8_ms_`, every other one 3 ms.
  void PlantSpeeds(ChooseJob& job) {
    job.steps = [this](std::span<Runnable* const> executors,
                       const ShareOfTime& time) -> Result<std::vector<std::vector<double>>> {
      Spend(time);
      std::vector<std::vector<double>> ms;
      for (Runnable* e : executors) ms.push_back(Steps(e->program()));
      return ms;
    };
    job.runs = [this](std::span<Runnable* const> executors,
                      const ShareOfTime& time) -> Result<std::vector<double>> {
      Spend(time);
      std::vector<double> ms;
      for (Runnable* e : executors) {
        const std::vector<double> steps = Steps(e->program());
        ms.push_back(std::accumulate(steps.begin(), steps.end(), 0.0));
      }
      return ms;
    };
  }
  // Hears of each measurement of the search.
  virtual void Spend(const ShareOfTime&) {}

  const Graph net_ = MakeNet(kConvNet);
  Samples samples_;
  Ranges ranges_;
  double int8_ms_ = 1;

 private:
  std::vector<double> Steps(const Program& program) const {
    std::vector<double> ms;
    for (const Step& step : program.steps)
      ms.push_back(step.decision.precision == Precision::kInt8 ? int8_ms_ : 3);
    return ms;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("evoq_certify_{}", ::getpid());
};

}  // namespace evoq
