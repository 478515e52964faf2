#include "cli/elsewhere.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

TEST(Elsewhere, OptionsOfOtherTools) {
  constexpr std::string_view kNames[] = {"--scheme", "--output", "--calib"};
  EXPECT_EQ(OptionNamedElsewhere("--saveEngine", kNames), "; here it is --output");
  EXPECT_EQ(OptionNamedElsewhere("--onnx", kNames), "; the model comes without an option");
  EXPECT_EQ(OptionNamedElsewhere("--group_size", kNames), "");  // a verb without --block
  EXPECT_EQ(OptionNamedElsewhere("--int8", kNames), "; here it is --scheme int8");
  EXPECT_EQ(OptionNamedElsewhere("--fp16", kNames), "; here it is --scheme bf16");
  EXPECT_EQ(OptionNamedElsewhere("--fp16", {}), "; here it is evoq quantize --scheme bf16");
  EXPECT_EQ(OptionNamedElsewhere("--outptu", kNames), "");
  EXPECT_EQ(OptionNamedElsewhere("-x", kNames), "");
  constexpr std::string_view kServer[] = {"--model-repository", "--http-port"};
  EXPECT_EQ(OptionNamedElsewhere("--port", kServer), "; here it is --http-port");
  EXPECT_EQ(OptionNamedElsewhere("-m", kServer), "; models are in a folder, --model-repository");
}

}  // namespace
}  // namespace evoq
