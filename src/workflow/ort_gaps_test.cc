#include "workflow/ort_gaps.h"

#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class OrtGapsOf : public TinyFolder {
 protected:
  // The warnings about ONNX Runtime of a file written from `text`.
  std::vector<std::string> Written(const std::string& text, const std::string& scheme,
                                   const std::string& target = "ort",
                                   const std::string& weight_bits = "") {
    QuantizeJob job;
    job.model = Model("m.onnx", text);
    job.output = At("out.onnx");
    job.scheme = scheme;
    job.target = target;
    job.weight_bits =
        weight_bits.empty() ? std::vector<std::string>() : std::vector<std::string>{weight_bits};
    job.calib_random = 2;
    const auto done = Quantize(job);
    EXPECT_TRUE(done) << done.error().message();
    std::vector<std::string> warnings = done ? done->warnings : std::vector<std::string>();
    std::erase_if(warnings, [](const std::string& w) { return !w.starts_with("ONNX Runtime"); });
    return warnings;
  }
  static std::string Product(int columns) {
    return fmt::format(
        "graph g\ninput %x: float32[4, 64]\nconst %w: float32[64, {0}]\n"
        "m: %y: float32[4, {0}] = MatMul(%x, %w)\noutput %y\n",
        columns);
  }
};

TEST_F(OrtGapsOf, ProductsOfTwoBits) {
  for (const char* scheme : {"int2-weights", "int2-dynamic"}) {
    EXPECT_TRUE(Written(Product(64), scheme).empty()) << scheme;
    const auto told = Written(Product(66), scheme);
    ASSERT_EQ(told.size(), 1u) << scheme;
    EXPECT_NE(told[0].find("wrongly where their columns are no multiple of 4 (m); with graph"),
              std::string::npos)
        << told[0];
  }
  EXPECT_TRUE(Written(Product(66), "int4-weights").empty());
  EXPECT_TRUE(Written(Product(66), "int2-weights", "openvino").empty()) << "another runtime";
}

TEST_F(OrtGapsOf, TypesThatItDoesNotLoad) {
  for (const char* scheme : {"mxfp4-weights", "nvfp4-weights"}) {
    EXPECT_EQ(Written(Product(64), scheme, "ort-cpu"),
              (std::vector<std::string>{
                  "ONNX Runtime 1.32 does not load this file: it has no weights of float4 (m)"}))
        << scheme;
  }
  const auto bf16 = Written(Product(64), "bf16");
  ASSERT_EQ(bf16.size(), 1u);
  EXPECT_NE(bf16[0].find("it has no operators on bfloat16 ("), std::string::npos) << bf16[0];
  const auto convolution = Written(
      "graph g\ninput %x: float32[1, 8, 6, 6]\nconst %v: float32[8, 8, 3, 3]\n"
      "const %w: float32[8, 8, 3, 3]\n"
      "a: %a: float32[1, 8, 4, 4] = Conv(%x, %v)\nc: %c: float32[1, 8, 2, 2] = Conv(%a, %w)\n"
      "d: %y: float32[1, 8, 1, 1] = MaxPool{kernel_shape=[2, 2]}(%c)\noutput %y\n",
      "int8", "ort", "c=2");
  EXPECT_EQ(convolution, (std::vector<std::string>{"ONNX Runtime 1.32 does not load this file: it "
                                                   "has no convolutions with weights of 2 bits "
                                                   "(c)"}));
}

}  // namespace
}  // namespace evoq
