// Layers of ONNX Runtime's profiles and those of a baseline, under the names that its optimizers
// give.
#include <fmt/format.h>

#include <cmath>

#include "foreign/profiles/test_files.h"

namespace evoq {
namespace {

using nlohmann::json;

using Timed = std::pair<const char*, double>;  // a node and its microseconds

class OrtPairing : public ProfileFiles {
 protected:
  // Convolutions of one kind, one after the other.
  ForeignRun Of(const std::vector<Timed>& nodes, const char* op, const char* type) const {
    json events = json::array();
    const json x = {{type, {1, 8, 4, 4}}}, scale = {{"float", json::array()}},
               w = {{std::string(type) == "float" ? "float" : "int8", {8, 8, 3, 3}}};
    const bool linear = std::string(op) == "QLinearConv";
    for (const auto& [name, us] : nodes)
      events.push_back({{"name", fmt::format("{}_kernel_time", name)},
                        {"dur", us},
                        {"args",
                         {{"op_name", op},
                          {"input_type_shape", linear ? json{x, scale, x, w} : json{x, w}},
                          {"output_type_shape", {x}}}}});
    const auto run = Source("onnxruntime").read(Write("p.json", events));
    EXPECT_TRUE(run) << run.error().message();
    return *run;
  }
};

// A profile of ONNX Runtime names no tensors, and its optimizers rename what they fuse: numbers
// that rise in both runs tell the order of the model, and what is left of lasting names the
// operator.
TEST_F(OrtPairing, NumbersInTheOrderOfTheRun) {
  const auto lost = [&](const std::vector<Timed>& int8, const std::vector<Timed>& fp32) {
    const ForeignRun baseline = Of(fp32, "Conv", "float");
    auto found = LostBy(Diagnose(Of(int8, "QLinearConv", "uint8"), &baseline));
    for (auto& [code, ms] : found) ms = std::round(ms * 1e6) / 1e6;
    return found;
  };
  const std::vector<Timed> before = {{"relu_3_nchwc", 20}, {"relu_6_nchwc", 40}};
  EXPECT_EQ(lost({{"Conv_1_token_1", 30}, {"Conv_4_token_5", 10}}, before),
            (std::map<std::string, double>{{"int8-layer-slower", 0.010}}));
  // Others than in the order of the file.
  const std::map<std::string, double> doubt = {{"int8-layer-unpaired", 0}};
  EXPECT_EQ(lost({{"Conv_4_token_1", 30}, {"Conv_1_token_5", 10}}, before), doubt);
  EXPECT_EQ(lost({{"Conv_1", 30}, {"Conv_4", 10}}, {{"relu_6", 20}, {"relu_3", 40}}), doubt);
  EXPECT_EQ(lost({{"Conv", 30}, {"Conv_4", 10}}, before), doubt);
  EXPECT_EQ(lost({{"Conv_1", 30}, {"Conv_4", 10}, {"Conv_7", 10}}, before), doubt);
  EXPECT_EQ(lost({{"/b/Conv_token_1", 30}, {"/a/Conv_token_5", 10}},
                 {{"/a/Conv_output_0_nchwc", 40}, {"/b/Conv_output_0_nchwc", 20}}),
            (std::map<std::string, double>{{"int8-layer-slower", 0.010}}));
}

}  // namespace
}  // namespace evoq
