// A model whose weights do not shrink says so: voice detectors once came out at 0.94 of float32
// without a word.
#include "workflow/left_float.h"

#include <algorithm>

#include "llm/test_files.h"
#include "reference/reference.h"
#include "workflow/compile.h"
#include "workflow/generate.h"
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

// A GGUF file of one type of blocks: what reading it rounded is said, and weights that the scheme
// leaves; and that its tokenizer cannot be read, which tokens do not need.
TEST_F(LeftFloat, WeightsOfBlocks) {
  GgufBytes file;
  file.Fact("general.architecture", std::string("llama"));
  file.Fact("tokenizer.ggml.model", std::string("rwkv"));
  const std::pair<const char*, uint32_t> facts[] = {
      {"embedding_length", 32}, {"block_count", 1},          {"attention.head_count", 2},
      {"context_length", 16},   {"feed_forward_length", 32}, {"attention.head_count_kv", 2}};
  for (const auto& [name, value] : facts) file.Fact(fmt::format("llama.{}", name), value);
  file.Floats("output_norm.weight", {32});
  for (const char* name : {"attn_norm", "ffn_norm"})
    file.Floats(fmt::format("blk.0.{}.weight", name), {32});
  const auto matrix = [&](const std::string& name) {
    file.Tensor(name + ".weight", {32, 32}, 7, file.DataBytes());
    std::string block = std::string("\x66\x2e\x00\xbc", 4);  // 0.1 and -1
    for (int i = 0; i < 20; ++i) block += static_cast<char>(37 * i + file.DataBytes() / 97);
    for (int row = 0; row < 32; ++row) file.Data(block);
  };
  matrix("token_embd");
  for (const char* name :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down"})
    matrix(fmt::format("blk.0.{}", name));
  const std::string model = Text("q5_1.gguf", file.Bytes());
  const auto said = [&](const char* scheme, std::string_view what) {
    const Quantized done = QuantizeAs(model, scheme);
    return std::ranges::any_of(done.warnings, [&](const std::string& warning) {
      return warning.find(what) != warning.npos;
    });
  };
  const char *rounded = "rounded to int8 (9 of Q5_1), which moves them by 0.",
             *again = "weights that had few bits already were rounded again, to int4 (8 of int8)",
             *kept =
                 "--scheme bf16 is about weights in float: those that the model's file has in "
                 "blocks stay as they are (8 in int8)";
  for (const char* scheme : {"int8-weights", "int4-dynamic", "bf16"})
    EXPECT_TRUE(said(scheme, rounded)) << scheme;
  EXPECT_TRUE(said("int4-dynamic", again));
  const std::string unread = "tokenizer.gguf: tokenizer.ggml.model is rwkv";
  EXPECT_TRUE(said("int8-weights",
                   "the model's tokenizer cannot be read, texts will need another: " + unread));
  GenerateJob text{.model = model, .prompt_tokens = {{1, 2}}, .options = {.max_tokens = 3}};
  const auto tokens = Generate(text);
  ASSERT_TRUE(tokens) << tokens.error().message();
  EXPECT_EQ(tokens->texts[0].tokens.size(), 3u);
  EXPECT_EQ(Tell(*tokens).log[0].find("note: no text, only tokens: " + unread), 0u);
  text.options.stop = {"x"};
  EXPECT_NE(Generate(text).error().message().find(unread), std::string::npos);
  EXPECT_TRUE(said("bf16", kept));
  EXPECT_FALSE(said("int4-dynamic", "stay as they are"));
  EXPECT_FALSE(said("int8-weights", "stay as they are"));
  EXPECT_FALSE(said("float32", "stay as they are"));
  // The embedding, which is the head too, counts once, as do three norms that are equal.
  EXPECT_EQ(QuantizeAs(model, "int8-weights").float_weight_bytes,
            4 * (8 * 32 * 32 + 32 + 2 * 16 * 8));
  CompileJob job;
  job.model = model;
  job.output = At("c.etm");
  const auto compiled = Compile(job);
  ASSERT_TRUE(compiled) << compiled.error().message();
  const Told told = Tell(*compiled);
  ASSERT_EQ(told.log.size(), 2u);  // and of the tokenizer
  EXPECT_NE(told.log[0].find(rounded), std::string::npos) << told.log[0];
}

}  // namespace
}  // namespace evoq
