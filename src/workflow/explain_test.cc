// What explain tells of steps that stay float.
#include "workflow/explain.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "program/etm.h"
#include "quant/mixed.h"
#include "quant/unfuse.h"
#include "workflow/attainable.h"
#include "workflow/explain_profile.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

using Explains = TinyFolder;

// A plan with both narrow types is one of integers, as in the ledger of time.
TEST_F(Explains, TheNarrowTypeOfAMixedModel) {
  const Graph net = Parsed(
      "graph g\ninput %x: float32[2, 16]\nconst %v: float32[16, 16]\nconst %w: float32[16, 16]\n"
      "a: %a: float32[2, 16] = MatMul(%x, %v)\nb: %y: float32[2, 16] = MatMul(%a, %w)\n"
      "output %y\n");
  const std::pair<const char*, const char*> rows[] = {
      {"int8-dynamic", "int8"}, {"bf16", "bf16"}, {"float32", "bf16"}};
  for (const auto& [scheme, narrow] : rows) {
    Graph graph = net;
    ASSERT_TRUE(QuantizeMixed(graph, {}, {}, {{"a", {scheme, {}}}, {"b", {"bf16", {}}}}));
    const auto model = LowerAndPack(std::move(graph));
    ASSERT_TRUE(model) << model.error().message();
    ASSERT_TRUE(WriteEtm(*model, At("mixed.etm")));
    ExplainJob job;
    job.model = At("mixed.etm");
    job.threads = 1;
    job.duration_s = 0.02;
    const auto explained = Explain(job);
    ASSERT_TRUE(explained) << explained.error().message();
    const std::string text = Tell(*explained).text;
    EXPECT_NE(text.find(fmt::format("that could be {} ", narrow)), std::string::npos) << text;
  }
}

// A depthwise window without a fast integer kernel, as a file of another tool has it, and an
// operator without any.
TEST_F(Explains, StepsWithoutAFastKernel) {
  Graph graph = Parsed(
      "graph g\ninput %x: float32[1, 16, 4, 4, 8]\nconst %w: float32[16, 1, 1, 1, 5]\n"
      "const %v: float32[16, 16, 1, 1, 1]\n"
      "d: %d: float32[1, 16, 4, 4, 4] = Conv{group=16}(%x, %w)\n"
      "c: %c: float32[1, 16, 4, 4, 4] = Conv(%d, %v)\n"
      "const %axis: int64[] = [1]\n"
      "l: %y: float32[1, 16, 4, 4, 4] = CumProd(%c, %axis)\noutput %y\n");
  const Ranges ranges = {{"x", {-1, 1}}, {"d", {-1, 1}}, {"c", {-1, 1}}, {"y", {-1, 1}}};
  ASSERT_TRUE(QuantizeStatic(graph, ranges, {.target = FindQdqTarget("evoq")}));
  const auto model = LowerAndPack(std::move(graph));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_TRUE(WriteEtm(*model, At("slow.etm")));
  ExplainJob job{.model = At("slow.etm")};
  job.threads = 1;
  job.duration_s = 0.02;
  const auto explained = Explain(job);
  ASSERT_TRUE(explained) << explained.error().message();
  const Told told = Tell(*explained);
  EXPECT_NE(told.text.find("conv_int8 is slower than float32 here: each output channel reads"),
            std::string::npos)
      << told.text;
  EXPECT_NE(told.text.find("quantize with --exclude d"), std::string::npos) << told.text;
  EXPECT_NE(told.text.find("l (CumProd): no kernel computes it"), std::string::npos);
  EXPECT_EQ(told.json["slow_steps"].size(), 2);
}

// A Resize of free sizes is no step that could be left out, though its size is not known before.
TEST_F(Explains, AttainableOfFreeSizes) {
  const std::string path =
      Model("free.onnx",
            "graph g\ninput %x: float32[1, 4, H, W]\nconst %w: float32[4, 4, 3, 3]\n"
            "const %v: float32[4, 4, 1, 1]\n"
            "c: %c = Conv{pads=[1, 1, 1, 1], strides=[2, 2]}(%x, %w)\n"
            "d: %d = Conv{pads=[1, 1, 1, 1], strides=[2, 2]}(%c, %w)\n"
            "const %s: float32[4] = [1, 1, 2, 2]\nr: %r = Resize(%d, _, %s)\n"
            "a: %a = Add(%r, %c)\nr2: %r2 = Resize(%a, _, %s)\ne: %e = Conv(%x, %v)\n"
            "j: %j = Concat{axis=1}(%r2, %e)\nconst %u: float32[4, 8, 1, 1]\n"
            "f: %y = Conv(%j, %u)\noutput %y\n");
  const auto sample = [] {
    return std::vector<Tensor>{
        Tensor::FromValues(Shape{1, 4, 8, 8}, std::vector<float>(4 * 8 * 8, 0.5f))};
  };
  const auto best = LoadAttainable(path, "int8", {"r2"}, sample(), {.threads = 1});
  ASSERT_TRUE(best) << best.error().message();
  const auto runnable = (*best)->RunnableFor(sample());
  EXPECT_TRUE(runnable) << runnable.error().message();
}

// A kernel that uses a few percent of the machine is named where it takes a visible share, and what
// takes next to nothing has no line of its own.
TEST_F(Explains, KernelsFarFromTheRoofline) {
  std::string text = "graph g\ninput %x: float32[8, 16]\n";
  for (int i = 0; i < 30; ++i)
    text += fmt::format("h{0}: %y{0}: float32[8, 16] = EyeLike(%x)\noutput %y{0}\n", i);
  text += "m: %z: float32[8, 16] = Relu(%x)\noutput %z\n";
  ASSERT_TRUE(WriteEtm(*LowerAndPack(Parsed(text)), At("far.etm")));
  ExplainJob job{.model = At("far.etm")};
  job.threads = 1;
  job.duration_s = 0.02;
  auto explained = Explain(job);
  ASSERT_TRUE(explained) << explained.error().message();
  StepProfile& profile = explained->model.profile;
  profile.total_ms = profile.steps_ms = 10;
  profile.host_ms = 0;
  for (StepTime& step : profile.steps) {
    const bool relu = step.name == "m";
    step.ms = step.median_ms = relu ? 8.0 : step.name == "h7" ? 2.0 - 29 * 1e-4 : 1e-4;
    step.roofline_share = relu ? 0.03 : 0.5;
  }
  const Told told = Tell(*explained);
  const size_t at = told.text.find("steps without a fast kernel:\n");
  ASSERT_NE(at, std::string::npos);
  const std::string list = told.text.substr(at, told.text.find("\n\n", at) - at);
  EXPECT_NE(list.find("\n   80.0%  m (Relu): "), std::string::npos) << list;
  EXPECT_NE(list.find(" reaches 3.0% of the roofline; "), std::string::npos) << list;
  EXPECT_NE(list.find("\n   20.0%  h7 (EyeLike): "), std::string::npos) << list;
  EXPECT_NE(list.find("    0.0%  in 29 more (--json has them)"), std::string::npos) << list;
  EXPECT_EQ(std::count(list.begin(), list.end(), '%'), 4) << list;
  EXPECT_EQ(told.json["slow_steps"].size(), 31u);
  for (StepTime& step : profile.steps) {
    if (step.name == "m") step.median_ms = 4;
  }
  EXPECT_EQ(Tell(*explained).text.find("m (Relu): "), std::string::npos)
      << "half of its runs reach 6%: something else ran beside the others";
  for (StepTime& step : profile.steps) {
    if (step.name == "m") step.median_ms = 6.4;
  }
  EXPECT_NE(Tell(*explained).text.find("\n   64.0%  m (Relu): "), std::string::npos);
  EXPECT_NE(Tell(*explained).text.find(" reaches 3.8% of the roofline; "), std::string::npos);
  for (StepTime& step : profile.steps) step.median_ms = step.ms;
  profile.total_ms = profile.steps_ms = 4;  // of a busy machine: steps had worse moments
  EXPECT_NE(Tell(*explained).text.find("\n   80.0%  m (Relu): "), std::string::npos)
      << "no share is of less than the sum";
  profile.total_ms = profile.steps_ms = 10;
  for (const auto& [share, named] : {std::pair{0.0499, true}, {0.05, false}, {0.0, false}}) {
    for (StepTime& step : profile.steps) {
      if (step.name == "m") step.roofline_share = share;
    }
    EXPECT_EQ(Tell(*explained).text.find("m (Relu): ") != std::string::npos, named) << share;
  }
}

// Of steps that stay float for one reason the first ten have a line.
TEST_F(Explains, ManyStepsOfOneReason) {
  std::string text = "graph g\ninput %x0: float32[4, 8]\n";
  constexpr int kSteps = 13;
  for (int i = 0; i < kSteps; ++i)
    text += fmt::format(
        "s{0}: %x{1}: float32[4, 8] = Softmax{{evoq.float_reason=\"excluded: by the "
        "user\"}}(%x{0})\n",
        i, i + 1);
  text += fmt::format(
      "t: %y: float32[4, 8] = Relu{{evoq.float_reason=\"no-range: not seen\"}}"
      "(%x{})\noutput %y\n",
      kSteps);
  ASSERT_TRUE(WriteEtm(*LowerAndPack(Parsed(text)), At("many.etm")));
  ExplainJob job{.model = At("many.etm")};
  job.threads = 1;
  job.duration_s = 0.02;
  const auto explained = Explain(job);
  ASSERT_TRUE(explained) << explained.error().message();
  const Told told = Tell(*explained);
  const size_t at = told.text.find("steps that could be int8 and are not:\n");
  ASSERT_NE(at, std::string::npos) << told.text;
  const std::string list = told.text.substr(at, told.text.find("\n\n", at) - at);
  EXPECT_NE(list.find("\ns9 "), std::string::npos) << list;
  EXPECT_EQ(list.find("\ns10 "), std::string::npos) << list;
  EXPECT_NE(list.find("\n... 3 more"), std::string::npos) << list;
  EXPECT_NE(list.find("\nt "), std::string::npos) << list;
  EXPECT_EQ(told.json["decisions"].size(), 14u);
}

// Tuning is advised where it has something to choose from: the forms of a product, or how many
// threads share a step.
TEST_F(Explains, TuningWhereThereIsAChoice) {
  ASSERT_TRUE(
      WriteEtm(*LowerAndPack(Parsed("graph g\ninput %x: float32[1, 32, 16, 16]\n"
                                    "const %w: float32[32, 32, 3, 3]\n"
                                    "p: %p: float32[1, 32, 14, 14] = Conv(%x, %w)\n"
                                    "m: %y: float32[1, 32, 14, 14] = Softmax(%p)\noutput %y\n")),
               At("choice.etm")));
  ExplainJob job{.model = At("choice.etm")};
  job.duration_s = 0.02;
  for (const int threads : {1, 2}) {
    job.threads = threads;
    auto explained = Explain(job);
    ASSERT_TRUE(explained) << explained.error().message();
    StepProfile& profile = explained->model.profile;
    profile.total_ms = profile.steps_ms = 2;
    profile.host_ms = 0;
    for (StepTime& step : profile.steps) step.ms = step.median_ms = 1, step.roofline_share = 0.03;
    const Told told = Tell(*explained);
    ASSERT_GE(told.json["slow_steps"].size(), 2u) << told.json["slow_steps"];
    for (const auto& step : told.json["slow_steps"]) {
      const bool choice = step["op"] == "Conv" || threads > 1;
      const std::string fix = step["fix"];
      EXPECT_EQ(fix.find("--tune") != std::string::npos, choice) << step;
    }
  }
}

// A product of which one block in four is not zero, beside one without zeros.
TEST_F(Explains, WhatZerosBuy) {
  Graph graph = Parsed(
      "graph g\ninput %x: float32[32, 64]\nconst %v: float32[64, 64]\nconst %w: float32[64, 64]\n"
      "a: %a: float32[32, 64] = MatMul(%x, %v)\nb: %y: float32[32, 64] = MatMul(%a, %w)\n"
      "output %y\n");
  for (const char* name : {"v", "w"}) {
    Tensor weight = Tensor::Allocate(TensorType(DType::kFloat32, Shape{64, 64}));
    for (int64_t i = 0; i < 64 * 64; ++i) {
      const bool there = *name == 'v' || (i / 64 / 4 + i % 64 / 4) % 4 == 0;
      weight.mutable_data<float>()[i] = there ? static_cast<float>(1 + i % 5) : 0.0f;
    }
    graph.SetConstant(graph.FindValue(name), weight);
  }
  ASSERT_TRUE(
      QuantizeMixed(graph, {}, {}, {{"a", {"int8-dynamic", {}}}, {"b", {"int8-dynamic", {}}}}));
  const auto model = LowerAndPack(std::move(graph));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_TRUE(WriteEtm(*model, At("zeros.etm")));
  ExplainJob job;
  job.model = At("zeros.etm");
  job.threads = 1;
  job.duration_s = 0.05;
  const auto explained = Explain(job);
  ASSERT_TRUE(explained) << explained.error().message();
  ASSERT_TRUE(explained->zeros);
  ASSERT_EQ(explained->zeros->layers.size(), 1u);
  const SkippedZeros::Layer& layer = explained->zeros->layers[0];
  EXPECT_EQ(layer.node, "b");
  EXPECT_EQ(layer.share, 0.25);
  EXPECT_EQ(layer.full_bytes, 64 * 64);
  EXPECT_LT(layer.bytes, 64 * 64 / 3);
  EXPECT_GE(layer.bytes, 64 * 64 / 4);
  EXPECT_GT(layer.ms, 0);
  EXPECT_GT(layer.full_ms, 0);
  const Told told = Tell(*explained);
  EXPECT_EQ(told.json["zeros"]["weight_bytes_with_zeros"], 64 * 64);
  EXPECT_EQ(told.json["zeros"]["layers"][0]["skips"], layer.skips);
  EXPECT_NE(told.text.find("zeros: "), std::string::npos) << told.text;
  // Without zeros there is nothing to tell.
  job.model = At("none.etm");
  Graph plain = Parsed(
      "graph g\ninput %x: float32[32, 64]\nconst %v: float32[64, 64]\n"
      "a: %y: float32[32, 64] = MatMul(%x, %v)\noutput %y\n");
  const auto other = LowerAndPack(std::move(plain));
  ASSERT_TRUE(other) << other.error().message();
  ASSERT_TRUE(WriteEtm(*other, job.model));
  const auto nothing = Explain(job);
  ASSERT_TRUE(nothing) << nothing.error().message();
  EXPECT_FALSE(nothing->zeros);
  EXPECT_FALSE(Tell(*nothing).json.contains("zeros"));
}

TEST(SkippedZerosText, NamesWhatIsSlower) {
  SkippedZeros zeros;
  zeros.layers = {{"fast", 0.25, true, 0.5, 1.5, 100, 400},
                  {"slow", 0.5, true, 0.4, 0.2, 200, 400},
                  {"full", 0.5, false, 0.4, 0.1, 200, 400}};
  const Told told = Tell(zeros);
  EXPECT_EQ(told.text,
            "zeros: 2 of 3 layers whose weights are stored without their blocks of zeros skip "
            "them\n"
            "  1.3000 ms, 1.8000 with the zeros, 1.38x; weights in memory 500 B, 1.2 kB with the "
            "zeros\n"
            "zeros that do not pay in time (tuning chooses, docs/tuning.md):\n"
            "  slow: 0.4000 ms, 0.2000 with its zeros\n");
  EXPECT_EQ(told.json["weight_bytes"], 500);
}

// A baseline of another tool, whose content says which.
TEST(ExplainForeign, BaselinesOfOtherTools) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("evoq_tools_{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string graph = folder / "g.xml", profile = folder / "p.json";
  ASSERT_TRUE(WriteFileAtomic(
      graph, R"(<layer id="0" name="a" type="Add"><data execTimeMcs="2000"/></layer>)"));
  ASSERT_TRUE(WriteFileAtomic(
      profile, R"([{"name": "a_kernel_time", "dur": 3000, "args": {"op_name": "Add"}}])"));
  const auto file = FindForeignFile(graph);
  ASSERT_TRUE(file && file->source != nullptr);
  const auto explained = ExplainForeign({file->source, file->path, profile});
  ASSERT_TRUE(explained) << explained.error().message();
  EXPECT_EQ(explained->run.tool, "openvino");
  EXPECT_EQ(explained->baseline->tool, "onnxruntime");
  EXPECT_NEAR(Tell(*explained).json["delta"]["elementwise"].get<double>(), -1, 1e-12);
  // A folder in which another tool's file lies too is that of the tool that was named.
  ASSERT_TRUE(WriteFileAtomic(folder / "t.json", R"([{"count": 1}, {"name": "a", "timeMs": 2}])"));
  for (const ForeignSource* source : AllForeignSources()) {
    if (std::string_view(source->tool) != "trtexec") continue;
    std::filesystem::remove(profile);
    const auto same = ExplainForeign({source, folder / "t.json", folder});
    ASSERT_TRUE(same) << same.error().message();
    EXPECT_EQ(same->baseline->tool, "trtexec");
  }
  std::filesystem::remove_all(folder);
}

// Other runtimes' files by a pipe, which can be read but once.
TEST(ExplainForeign, StandardInput) {
  const int own = dup(STDIN_FILENO);
  for (const ForeignSource* source : AllForeignSources()) {
    const bool log = std::string_view(source->option) == "--trtexec";
    const std::string_view text =
        log ? "=== Profile (10 iterations ) ===\nTime(ms) Avg.(ms) Time(%) Layer\n"
              "20 0.002 100 a\n20 0.002 100 Total\n"
        : std::string_view(source->option) == "--ort-profile"
            ? R"([{"name": "a_kernel_time", "dur": 2, "args": {"op_name": "Conv"}}])"
        : std::string_view(source->option) == "--openvino"
            ? R"(<layer id="0" name="a" type="Add"><data execTimeMcs="2"/></layer>)"
        : std::string_view(source->option) == "--tflite"
            ? "= Run Order =====\nnode type, first, avg_ms, %, cdf%, mem KB, times called, name\n"
              "ADD, 0.002, 0.002, 100%, 100%, 0, 1, [a]:0\n"
        : std::string_view(source->option) == "--msprof" ? "OP Type,Task Duration(us)\nAdd,2\n"
        : std::string_view(source->option) == "--torch-trace"
            ? R"([{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 2}])"
            : "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
              "a;EXECUTED;Convolution;x;0.002;0.002\n";
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends[1]);
    ASSERT_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    const auto explained = ExplainForeign({source, "-", ""});
    ASSERT_TRUE(explained) << source->option << ": " << explained.error().message();
    EXPECT_NEAR(explained->run.layer_sum_ms, 0.002, 1e-12) << source->option;
  }
  dup2(own, STDIN_FILENO);
  close(own);
}

}  // namespace
}  // namespace evoq
