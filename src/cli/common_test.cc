// What several verbs share, called as the verbs call it.
#include "cli/common.h"

#include <gtest/gtest.h>

#include "cli/tiny_testing.h"

namespace evoq {
namespace {

using Common = TinyModels;

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
  EXPECT_EQ(*ParseFixed({"x=?x4", "y=3"}), (InputShapes{{"x", {-1, 4}}, {"y", {3}}}));
  EXPECT_EQ(ParseFixed({"x=1y"}).error().message(), "--fix-shape x=1y: expected NAME=?x3x224x224");
  EXPECT_EQ(ParseFixed({"x=??"}).error().message(), "--fix-shape x=??: expected NAME=?x3x224x224");
  EXPECT_EQ(ParseFixed({"x=?x0"}).error().message(),
            "--fix-shape x=?x0: dimension 1 has size 0, expected at least 1");
}

TEST_F(Common, ContentsOfInputs) {
  EXPECT_EQ(*ParseInputs({"x=a.npy", "a=b=c.npy", "x=d.npy"}),
            (InputFiles{{"x", "d.npy"}, {"a=b", "c.npy"}}));
  // Names and paths may both hold '=': the file that is there tells.
  const std::string folder = At("run=3");
  std::filesystem::create_directories(folder);
  const std::string file = Text("run=3/a=b.npy", "");
  EXPECT_EQ(*ParseInputs({"x=" + file, "a=b=" + file}), (InputFiles{{"x", file}, {"a=b", file}}));
  EXPECT_FALSE(SplitNamedFile("f.npy"));
  EXPECT_EQ(SplitNamed("a=b=3"), std::pair(std::string("a=b"), std::string("3")));
  const auto refused = ParseInputs({"f.npy"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "--input f.npy: expected NAME=F.npy");
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
}

TEST_F(Common, WhatATaskTellsIsPrinted) {
  KeptOutput kept;
  EXPECT_EQ(Print({{{"a", 1}}, "b {}\nc\n", {"note: {}"}}), (nlohmann::json{{"a", 1}}));
  EXPECT_EQ(kept.out, "b {}\nc\n");
  EXPECT_EQ(kept.log, (std::vector<std::string>{"note: {}"}));
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

TEST_F(Common, VerbsForCallersInThisProcess) {
  const auto refused = [](const std::string& verb, const std::vector<std::string>& words) {
    const auto ran = RunVerb(verb, words);
    EXPECT_FALSE(ran) << verb;
    if (ran) return std::string();
    EXPECT_EQ(ran.error().code(), ErrorCode::kUsage);
    return ran.error().message();
  };
  EXPECT_EQ(refused("walk", {}), "unknown command 'walk' (`evoq --help` lists them)");
  EXPECT_EQ(refused("list", {"methods", "--no-such-option"}).substr(0, 6), "list: ");
  EXPECT_EQ(refused("list", {"nothing"}),
            "list nothing: expected ops, kernels, passes, schemes, methods, observers, gradients, "
            "layers, rules or verbs");
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

}  // namespace
}  // namespace evoq
