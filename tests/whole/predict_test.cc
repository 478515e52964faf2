// What `evoq predict` says of the file against the file that `evoq quantize` writes.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "tests/whole/models.h"

namespace evoq {
namespace {

class PredictTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("evoq_predict_{}", ::getpid());
    std::filesystem::create_directories(folder_);
    ::setenv("EVOQ_LIMITS_CACHE", At("limits.json").c_str(), 1);
    Run({"limits", "--threads", "1"});
  }
  void TearDown() override {
    ::unsetenv("EVOQ_LIMITS_CACHE");
    std::filesystem::remove_all(folder_);
  }

  std::string At(const std::string& name) const { return (folder_ / name).string(); }

  nlohmann::json Run(std::vector<std::string> words, int code = 0) {
    const std::string report = At("report.json");
    words.insert(words.begin(), "evoq");
    words.insert(words.end(), {"--json", report});
    std::vector<const char*> argv;
    for (const std::string& w : words) argv.push_back(w.c_str());
    EXPECT_EQ(RunCommandLine(static_cast<int>(argv.size()), argv.data()), code) << words[1];
    std::ifstream file(report);
    return file ? nlohmann::json::parse(file, nullptr, false) : nlohmann::json();
  }

  // Every scheme's file, quantized in earnest.
  void ExpectSizes(const std::string& onnx, const std::vector<std::string>& shapes = {}) {
    std::vector<std::string> words = {"predict", onnx, "--threads", "1"};
    words.insert(words.end(), shapes.begin(), shapes.end());
    const nlohmann::json forecast = Run(words);
    ASSERT_EQ(forecast["schemes"].size(), AllSchemes().size()) << onnx;
    for (const auto& scheme : forecast["schemes"]) {
      const std::string name = scheme["scheme"], etm = At(name + ".etm");
      words = {"quantize", onnx, "--scheme", name, "-o", etm};
      if (FindScheme(name)->needs_calibration) words.insert(words.end(), {"--calib-random", "2"});
      words.insert(words.end(), shapes.begin(), shapes.end());
      Run(words);
      const auto predicted = scheme["file_bytes"].get<double>(),
                 written = static_cast<double>(std::filesystem::file_size(etm));
      if (FindScheme(name)->needs_calibration) {
        // Where all weights take less than 64 KiB they are compressed, and how well depends on the
        // calibration data.
        EXPECT_NEAR(predicted / written, 1, written < (64 << 10) ? 0.12 : 0.01)
            << onnx << ", " << name;
      } else {
        EXPECT_EQ(predicted, written) << onnx << ", " << name;
      }
    }
  }

  std::filesystem::path folder_;
};

TEST_F(PredictTest, SizeIsThatOfTheFileThatQuantizeWrites) {
  for (const char* name : {"lenet", "squeezenet1.1"}) {
    const std::string onnx = At(fmt::format("{}.onnx", name));
    Run({"zoo", name, "-o", onnx});
    ExpectSizes(onnx);
  }
}

TEST_F(PredictTest, SizesOfRealModels) {
  EVOQ_NEED_DATA("models/resnet8_cifar10_mlperf.onnx");
  ExpectSizes(DataFolder() + "/models/resnet8_cifar10_mlperf.onnx");
  ExpectSizes(DataFolder() + "/models/fastestdet.onnx");
  ExpectSizes(DataFolder() + "/models/stories260K.onnx", {"--shape", "input_ids=1x16"});
}

TEST_F(PredictTest, ForAnotherMachine) {
  const std::string onnx = At("lenet.onnx"), limits = At("other.json");
  Run({"zoo", "lenet", "-o", onnx});
  nlohmann::json other = Run({"limits", "--threads", "1"});
  const auto here = Run({"predict", onnx, "--threads", "1", "--scheme", "int8"});
  for (const char* rate :
       {"int8_gops", "fp32_gflops", "l3_read_gbps", "l2_read_gbps", "dram_read_gbps", "clock_ghz"})
    other[rate] = other[rate].get<double>() / 3;
  std::ofstream(limits) << other.dump();
  const auto there = Run({"predict", onnx, "--limits", limits, "--scheme", "int8"});
  EXPECT_GT(there["schemes"][1]["ms"], here["schemes"][1]["ms"].get<double>() * 2);
  Run({"predict", onnx, "--limits", limits, "--threads", "2"}, 2);
  std::ofstream(limits) << "{}";
  Run({"predict", onnx, "--limits", limits}, 3);
  Run({"predict", onnx, "--scheme", "int3"}, 2);
}

TEST_F(PredictTest, CheckMeasuresEveryScheme) {
  const std::string onnx = At("lenet.onnx");
  Run({"zoo", "lenet", "-o", onnx});
  const auto checked = Run({"predict", onnx, "--threads", "1", "--check"});
  for (const auto& scheme : checked["schemes"]) {
    EXPECT_GT(scheme["measured_ms"], 0) << scheme["scheme"];
    for (const auto& step : scheme["steps"]) EXPECT_GT(step["measured_ms"], 0) << step["name"];
  }
}

}  // namespace
}  // namespace evoq
