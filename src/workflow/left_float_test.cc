// A model whose weights do not shrink says so: voice detectors once came out at 0.94 of float32
// without a word.
#include "workflow/left_float.h"

#include "reference/reference.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class LeftFloat : public TinyFolder {
 protected:
  // An LSTM, 64 -> 128, of 393,216 bytes beside a small product; its weights are computed from `w`
  // where `computed`.
  std::string Detector(bool computed) {
    Graph graph;
    const auto random = [](std::vector<int64_t> sizes) {
      Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
      uint32_t state = 1;
      for (int64_t i = 0; i < t.elements(); ++i) {
        state = state * 1664525 + 1013904223;
        t.mutable_data<float>()[i] = static_cast<float>(state >> 8) * 0x1p-26f - 0.125f;
      }
      return t;
    };
    const ValueId x = graph.AddInput("x", TensorType(DType::kFloat32, Shape{10, 1, 64})),
                  scale = graph.AddInput("s", TensorType(DType::kFloat32, Shape{1}));
    ValueId w = graph.AddConstant("w", random({1, 512, 64}));
    if (computed) w = graph.Apply("Mul", "scaled", {w, scale});
    const ValueId y = graph.AddValue("y"), h = graph.AddValue("h");
    Node cell{.op = "LSTM", .name = "cell"};
    cell.inputs = {x, w, graph.AddConstant("r", random({1, 512, 128}))};
    cell.outputs = {y, h};
    graph.AddNode(std::move(cell));
    const ValueId out = graph.Apply("MatMul", "out", {h, graph.AddConstant("v", random({128, 8}))});
    graph.MarkOutput(out);
    EXPECT_TRUE(InferTypes(graph));
    const std::string path = At(computed ? "computed.onnx" : "detector.onnx");
    EXPECT_TRUE(ExportOnnx(graph, path));
    return path;
  }
  Quantized QuantizeAs(const std::string& model, const std::string& scheme,
                       const std::string& output = "q.etm",
                       const std::vector<std::string>& exclude = {}) {
    QuantizeJob job;
    job.exclude = exclude;
    job.model = model;
    job.scheme = scheme;
    job.output = At(output);
    job.calib_random = scheme == "int8" ? 4 : 0;
    const auto done = Quantize(job);
    EXPECT_TRUE(done) << done.error().message();
    return done ? *done : Quantized();
  }
};

TEST_F(LeftFloat, RecurrentWeightsShrink) {
  const std::string model = Detector(false);
  for (const char* scheme : {"int8-dynamic", "int8-weights", "int8", "int4-dynamic"}) {
    SCOPED_TRACE(scheme);
    const Quantized done = QuantizeAs(model, scheme);
    EXPECT_LT(static_cast<double>(done.output_bytes),
              0.32 * static_cast<double>(done.float_weight_bytes));
    for (const std::string& warning : done.warnings)
      EXPECT_EQ(warning.find("stay float32"), std::string::npos) << warning;
  }
  EXPECT_EQ(QuantizeAs(model, "int8-dynamic").steps[Precision::kFloat32], 0);
}

// Through an .onnx and back the weights stay narrow, and those of an LSTM multiply integers.
TEST_F(LeftFloat, ThroughOnnx) {
  const std::string model = Detector(false);
  for (const char* scheme : {"int8-dynamic", "int8-weights"}) {
    SCOPED_TRACE(scheme);
    const Quantized out = QuantizeAs(model, scheme, "q.onnx");
    EXPECT_LT(static_cast<double>(out.output_bytes),
              0.32 * static_cast<double>(out.float_weight_bytes));
    const Quantized back = QuantizeAs(At("q.onnx"), "float32", "back.etm");
    EXPECT_LT(static_cast<double>(back.output_bytes),
              0.32 * static_cast<double>(out.float_weight_bytes));
    EXPECT_EQ(back.steps[Precision::kFloat32] == 0, std::string_view(scheme) == "int8-dynamic");
  }
}

TEST_F(LeftFloat, WhatStaysIsSaid) {
  const Quantized done = QuantizeAs(Detector(true), "int8-dynamic");
  ASSERT_EQ(done.warnings.size(), 1u);
  EXPECT_EQ(done.warnings[0],
            "393.2 kB of 397.3 kB of weights stay float32, 262.1 kB of them those of cell (LSTM): "
            "weights-not-constant: weight 1 is computed at run time");
  EXPECT_TRUE(QuantizeAs(Detector(true), "float32").warnings.empty());
  EXPECT_TRUE(QuantizeAs(Detector(false), "int8-dynamic", "q.etm", {"cell"}).warnings.empty());
}

}  // namespace
}  // namespace evoq
