#include "workflow/report_model.h"

#include <gtest/gtest.h>

#include "workflow/models.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

using ReportModels = TinyFolder;

TEST_F(ReportModels, ModelsOfAReport) {
  const std::string model = Model("sum.onnx", kSumModel);
  const auto engine = LoadEngine(model, {.threads = 1});
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
