// What several verbs share, called as the verbs call it.
#include "cli/common.h"

#include <gtest/gtest.h>

#include "cli/report_model.h"
#include "cli/tiny_testing.h"

namespace evoq {
namespace {

class Common : public TinyModels {
 protected:
  static Graph Parsed(const std::string& text) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph) << graph.error().message();
    return std::move(*graph);
  }
};

TEST_F(Common, Shapes) {
  const auto shapes = ParseShapes({"x=1x3x224", "a=b=7", "x=2x5"});
  ASSERT_TRUE(shapes) << shapes.error().message();
  EXPECT_EQ(*shapes, (InputShapes{{"x", {2, 5}}, {"a=b", {7}}}));
  EXPECT_EQ(*ParseShapes({"s="}), (InputShapes{{"s", {}}})) << "a scalar";
  EXPECT_TRUE(ParseShapes({})->empty());
  for (const char* wrong :
       {"x", "=1", "", "x=-1", "x=1x-2", "x=?", "x=1y2", "x=a", "x=1xx2", "x=99999999999999999999"})
    EXPECT_EQ(ParseShapes({wrong}).error().message(),
              fmt::format("--shape {}: expected NAME=1x3x224x224", wrong));
  const auto zero = ParseShapes({"x=1x0"});
  EXPECT_EQ(zero.error().message(), "--shape x=1x0: dimension 1 has size 0, expected at least 1");
  EXPECT_EQ(zero.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(ParseShapes({"x"}).error().code(), ErrorCode::kUsage);
}

TEST_F(Common, SizesThatAreFixed) {
  const std::string free = Model(
      "free.onnx", "graph g\ninput %x: float32[N, M]\na: %y: float32[N, M] = Abs(%x)\noutput %y\n");
  const auto sizes = [&](const std::vector<std::string>& fixed) {
    const auto graph = LoadGraph(free, fixed);
    EXPECT_TRUE(graph) << graph.error().message();
    return graph->value(graph->inputs()[0]).type.shape.sizes();
  };
  EXPECT_EQ(sizes({}), (std::vector<int64_t>{-1, -1}));
  EXPECT_EQ(sizes({"x=?x4"}), (std::vector<int64_t>{-1, 4}));
  EXPECT_EQ(sizes({"x=3x?"}), (std::vector<int64_t>{3, -1}));
  EXPECT_EQ(LoadGraph(free, {"x=1y"}).error().message(),
            "--fix-shape x=1y: expected NAME=?x3x224x224");
  EXPECT_EQ(LoadGraph(free, {"x=??"}).error().message(),
            "--fix-shape x=??: expected NAME=?x3x224x224");
  EXPECT_EQ(LoadGraph(free, {"x=?x0"}).error().message(),
            "--fix-shape x=?x0: dimension 1 has size 0, expected at least 1");
  EXPECT_NE(LoadGraph(free, {"z=1x2"}).error().message().find("no input z"), std::string::npos);
  EXPECT_NE(LoadGraph(At("none.onnx"), {}).error().message().find("none.onnx"), std::string::npos);
}

TEST_F(Common, Batches) {
  const Graph graph = Parsed(
      "graph g\ninput %x: float32[N, 3]\ninput %y: float32[4]\ninput %s: float32[]\n"
      "input %u: float32[...]\na: %z = Add(%x, %s)\noutput %z\n");
  EXPECT_EQ(*WithBatch(graph, {{"q", {9}}}, 0), (InputShapes{{"q", {9}}}));
  EXPECT_EQ(*WithBatch(graph, {}, 4), (InputShapes{{"x", {4, 3}}, {"y", {4}}}));
  EXPECT_EQ(*WithBatch(graph, {{"x", {7, 3}}}, 4), (InputShapes{{"x", {4, 3}}, {"y", {4}}}));
  const auto fixed = WithBatch(graph, {}, 1);
  ASSERT_FALSE(fixed);
  EXPECT_EQ(fixed.error().message(), "--batch 1: input y has the fixed shape [4]");
  EXPECT_EQ(fixed.error().code(), ErrorCode::kUsage);
  const Graph wide =
      Parsed("graph g\ninput %x: float32[N, W]\na: %z: float32[N, W] = Abs(%x)\noutput %z\n");
  const auto unnamed = WithBatch(wide, {}, 2);
  ASSERT_FALSE(unnamed);
  EXPECT_EQ(unnamed.error().message(), "input x is [N, W]: name its sizes with --shape x=...");
  EXPECT_EQ(unnamed.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(*WithBatch(wide, {{"x", {1, 5}}}, 2), (InputShapes{{"x", {2, 5}}}));
}

TEST_F(Common, InputsAsDataSetsSeeThem) {
  const Graph graph = Parsed(
      "graph g\ninput %x: float32[N, 3]\ninput %i: int64[]\ninput %u: uint8[...]\n"
      "a: %z = Abs(%x)\noutput %z\n");
  const std::vector<InputSpec> inputs = InputsOf(graph);
  ASSERT_EQ(inputs.size(), 3);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].sizes, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(inputs[0].dtype, DType::kFloat32);
  EXPECT_TRUE(inputs[0].ranked);
  EXPECT_EQ(inputs[1].name, "i");
  EXPECT_EQ(inputs[1].dtype, DType::kInt64);
  EXPECT_TRUE(inputs[1].ranked);
  EXPECT_EQ(inputs[2].dtype, DType::kUint8);
  EXPECT_FALSE(inputs[2].ranked);
  EXPECT_TRUE(inputs[2].sizes.empty());
}

// Of 6 floats, 12 integers with a scale, 3 of a bias, 2 halves, and 5 in each branch; what nothing
// reads, what has two axes of int32 and what counts elements is no weight.
TEST_F(Common, BytesOfFloatWeights) {
  const Graph graph = Parsed(R"(graph g
input %x: float32[2, 3]
input %c: bool[]
const %f: float32[2, 3]
const %q: int8[3, 4](scale 0.5, zero 0)
const %b: int32[3]
const %n: int32[3, 1]
const %h: float16[2]
const %l: int64[3]
const %unread: float32[100]
a: %1 = Add(%x, %f)
m: %2 = MatMul(%1, %q)
b: %3 = Add(%2, %b)
n: %4 = Add(%3, %n)
h: %5 = Add(%4, %h)
l: %6 = Reshape(%5, %l)
if: %y = If{captured=1}(%c, %6)
| graph "then"
| input %p: float32[...]
| const %w: float32[5]
| t: %r = Mul(%p, %w)
| output %r
| graph "else"
| input %p: float32[...]
| const %w: float32[5]
| e: %r = Add(%p, %w)
| output %r
output %y
)");
  EXPECT_EQ(FloatWeightBytes(graph), 4 * (6 + 12 + 3 + 2 + 5 + 5));
}

TEST_F(Common, PreprocessingIsFoundBesideTheModel) {
  EXPECT_EQ(FindPreprocess(At("m.onnx"), "given.json"), "given.json");
  EXPECT_EQ(FindPreprocess(At("m.onnx"), ""), "");
  const std::string beside = Text("m.preprocess.json", "{}");
  EXPECT_EQ(FindPreprocess(At("m.onnx"), ""), beside);
  EXPECT_EQ(FindPreprocess(At("m.etm"), ""), beside);
  EXPECT_EQ(FindPreprocess(At("other.onnx"), ""), "");
  EXPECT_EQ(FindPreprocess(At("m.onnx"), "given.json"), "given.json");
  // A file that is there is read, also where the data needs none.
  Text("m.preprocess.json", "[]");
  const Graph graph = Parsed("graph g\ninput %x: float32[1, 2]\na: %y = Abs(%x)\noutput %y\n");
  const std::string rows = Values("rows.npy", Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const auto refused = OpenData({rows}, graph, At("m.onnx"), "", "");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("m.preprocess.json"), std::string::npos);
  const auto data = OpenData({rows}, graph, At("other.onnx"), "", "");
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 3);
  EXPECT_FALSE((*data)->At(1)->label);
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<int64_t>(Shape{3}, {7, 8, 9}), At("labels.npy")));
  const auto labelled = OpenData({rows}, graph, At("other.onnx"), "", At("labels.npy"));
  ASSERT_TRUE(labelled) << labelled.error().message();
  EXPECT_EQ((*labelled)->At(1)->label, 8);
}

TEST_F(Common, WhatIsPrintedIsKept) {
  {
    KeptOutput kept;
    Out("a {}\n", 1);
    Out("{}", Lines{"b\nc\x1b\n"});
    Log("d {}", 2);
    Log("e");
    EXPECT_EQ(kept.out.substr(0, 7), "a 1\nb\nc");
    EXPECT_EQ(kept.out.find('\x1b'), std::string::npos) << "made printable";
    EXPECT_EQ(kept.log, (std::vector<std::string>{"d 2", "e"}));
  }
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Out("out\n");
  Log("log");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "out\n");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "log\n");
}

TEST_F(Common, WhatTuningTells) {
  TuneReport report;
  report.steps = 7;
  report.measured = 2;
  report.changed = 3;
  report.default_ms = 1.5;
  report.tuned_ms = 1.25;
  report.seconds = 0.75;
  report.warnings = {"one", "two"};
  const nlohmann::json expected = {{"steps", 7},
                                   {"measured", 2},
                                   {"changed", 3},
                                   {"default_ms", 1.5},
                                   {"tuned_ms", 1.25},
                                   {"seconds", 0.75},
                                   {"warnings", {"one", "two"}}};
  {
    KeptOutput kept;
    EXPECT_EQ(TellTuned(report), expected);
    EXPECT_EQ(kept.out,
              "tuned 7 steps in 0.8 s, 2 kinds measured: 3 take another way than the default, "
              "1.500 -> 1.250 ms\n");
    EXPECT_EQ(kept.log, (std::vector<std::string>{"warning: one", "warning: two"}));
  }
  report.measured = 0;
  report.warnings.clear();
  KeptOutput kept;
  TellTuned(report);
  EXPECT_EQ(kept.out,
            "tuned 7 steps in 0.8 s, 0 kinds measured: 3 take another way than the default\n");
  EXPECT_TRUE(kept.log.empty());
}

TEST_F(Common, VerbsForCallersInThisProcess) {
  const auto refused = [](const std::string& verb, const std::vector<std::string>& words) {
    const auto ran = RunVerb(verb, words);
    EXPECT_FALSE(ran) << verb;
    if (ran) return std::string();
    EXPECT_EQ(ran.error().code(), ErrorCode::kUsage);
    return ran.error().message();
  };
  EXPECT_EQ(refused("walk", {}), "'walk' is no verb, expected one of those of `evoq --help`");
  EXPECT_EQ(refused("list", {"methods", "--no-such-option"}).substr(0, 6), "list: ");
  EXPECT_EQ(refused("list", {"nothing"}),
            "list nothing: expected ops, kernels, passes, methods, observers, rules or verbs");
  const std::string model = Model("sum.onnx", kSumModel);
  const auto optimized =
      RunVerb("optimize", {model, "-o", At("out.onnx"), "--disable", "*", "--threads", "1"});
  ASSERT_TRUE(optimized) << optimized.error().message();
  EXPECT_EQ(optimized->json,
            (nlohmann::json{
                {"nodes_before", 1}, {"nodes_after", 1}, {"passes", nlohmann::json::array()}}));
  EXPECT_EQ(optimized->out, fmt::format("{}: 1 nodes -> 1 -> {}\n", model, At("out.onnx")));
  EXPECT_TRUE(optimized->log.empty());
}

TEST_F(Common, JsonOfAnyBytes) {
  EXPECT_TRUE(WriteJson("", {{"a", 1}}));
  ASSERT_TRUE(WriteJson(At("r.json"), {{"a", "x\xff"}, {"b", 1}}));
  EXPECT_EQ(ReadTextFile(At("r.json")).value(), "{\n  \"a\": \"x\xef\xbf\xbd\",\n  \"b\": 1\n}\n");
  EXPECT_FALSE(WriteJson(At("no/such/folder.json"), {}));
}

TEST_F(Common, ModelsOfAReport) {
  const std::string model = Model("sum.onnx", kSumModel);
  const auto engine = LoadEngine(model, 1);
  ASSERT_TRUE(engine) << engine.error().message();
  const auto executor = (*engine)->Default();
  ASSERT_TRUE(executor) << executor.error().message();
  StepProfile profile;
  profile.total_ms = 2.5;
  const auto with = [&](const std::string& eval) {
    return ForReport(model, eval.empty() ? "" : Text("eval.json", eval), **executor, profile);
  };
  const auto plain = with("");
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_EQ(plain->name, "sum.onnx");
  EXPECT_EQ(plain->file_bytes, SizeOf("sum.onnx"));
  EXPECT_EQ(plain->arena_bytes, (*executor)->arena_bytes());
  EXPECT_EQ(plain->profile.total_ms, 2.5);
  EXPECT_EQ(plain->program, &(*executor)->program());
  EXPECT_EQ(plain->samples, 0);
  // Wilson's interval of 3 of 4 at z = 1.96: (0.75 + z^2 / 8 -+ z sqrt(0.1875 / 4 + z^2 / 64)) /
  // (1 + z^2 / 4).
  const auto shares = with(R"({"top1": 0.75, "samples": 4})");
  ASSERT_TRUE(shares) << shares.error().message();
  EXPECT_EQ(shares->samples, 4);
  EXPECT_NEAR(shares->top1->value, 0.75, 1e-12);
  EXPECT_NEAR(shares->top1->low, 0.3006, 1e-4);
  EXPECT_NEAR(shares->top1->high, 0.9544, 1e-4);
  for (const char* right : {R"({"top1": 0, "samples": 1})", R"({"top1": 1, "samples": 1})",
                            R"({"top1": 0.5, "samples": 999999999999999})"})
    EXPECT_TRUE(with(right)) << right;
  for (const char* wrong : {R"({"top1": -0.01, "samples": 4})", R"({"top1": 1.01, "samples": 4})",
                            R"({"top1": 0.5, "samples": 0.5})", R"({"top1": 0.5, "samples": 1e15})",
                            R"({"samples": 4})", R"({"top1": 1})"}) {
    const auto refused = with(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().message(),
              At("eval.json") + ": no top1 and samples; expected what `evoq eval --json F` writes");
  }
  EXPECT_FALSE(ForReport(model, At("none.json"), **executor, profile));
  EXPECT_FALSE(ForReport(At("none.onnx"), "", **executor, profile));
}

}  // namespace
}  // namespace evoq
