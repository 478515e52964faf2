// What eval counts, with a model that gives its input back: the scores are the samples.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "data/dataset.h"
#include "onnx/onnx.h"
#include "reference/reference.h"
#include "tests/whole/models.h"
#include "workflow/evaluate.h"

namespace evoq {
namespace {

class Eval : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        (std::filesystem::temp_directory_path() / fmt::format("evoq_eval_{}", ::getpid())).string();
    std::filesystem::create_directories(folder_);
    Graph graph =
        Must(ParseGraph("input %x: float32[1, 7]\na: %y = Neg(%x)\nb: %z = Neg(%y)\noutput %z"),
             "graph");
    Must(InferTypes(graph).map([] { return true; }), "graph");
    Must(ExportOnnx(graph, folder_ + "/same.onnx").map([] { return true; }), "same.onnx");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  EvalResult Run(const std::vector<float>& scores, const std::vector<int64_t>& labels) {
    const auto count = static_cast<int64_t>(labels.size());
    Must(WriteNpy(Tensor::FromValues<float>(Shape{count, 7}, scores), folder_ + "/x.npy").map([] {
      return true;
    }),
         "x.npy");
    Must(WriteNpy(Tensor::FromValues<int64_t>(Shape{count}, labels), folder_ + "/y.npy").map([] {
      return true;
    }),
         "y.npy");
    return Must(Evaluate({.model = folder_ + "/same.onnx",
                          .data = {folder_ + "/x.npy"},
                          .labels = folder_ + "/y.npy",
                          .threads = 1}),
                "eval");
  }
  std::string folder_;
};

// Ties count in favour of the lower class: 5 5 gives class 0 to label 0 alone; the label of five
// equal largest is among five where it is one of the first five.
TEST_F(Eval, TiesAreTheLowerClass) {
  const std::vector<float> tie = {5, 5, 1, 0, 0, 0, 0};
  EvalResult r = Run(tie, {0});
  EXPECT_EQ(std::pair(r.correct1, r.correct5), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(r.predictions[0].second, 0);
  r = Run(tie, {1});
  EXPECT_EQ(std::pair(r.correct1, r.correct5), std::pair(int64_t{0}, int64_t{1}));
  r = Run(tie, {4});  // 5 5 1 0 before it: the fifth
  EXPECT_EQ(std::pair(r.correct1, r.correct5), std::pair(int64_t{0}, int64_t{1}));
  r = Run(tie, {5});  // the sixth
  EXPECT_EQ(std::pair(r.correct1, r.correct5), std::pair(int64_t{0}, int64_t{0}));
}

TEST_F(Eval, RatesOfSeveralSamples) {
  const EvalResult r = Run({0, 1, 2, 3, 4, 5, 6,  //
                            6, 5, 4, 3, 2, 1, 0,  //
                            1, 9, 2, 3, 4, 5, 6,  //
                            6, 5, 4, 3, 2, 1, 0},
                           {6, 4, 0, 5});  // right; fifth; last; sixth
  EXPECT_EQ(r.samples, 4);
  EXPECT_EQ(r.labelled, 4);
  EXPECT_EQ(r.top1(), 0.25);
  EXPECT_EQ(r.top5(), 0.5);
  std::vector<int64_t> classes;
  for (const auto& [name, winner] : r.predictions) classes.push_back(winner);
  EXPECT_EQ(classes, (std::vector<int64_t>{6, 0, 1, 0}));
  EXPECT_EQ(r.predictions[2].first, "x.npy[2]");
}

// A score that is no number is right for no label.
TEST_F(Eval, NanIsNoRightAnswer) {
  const EvalResult r = Run({NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 1, 2, 3, 4, 5, 6}, {2, 0});
  EXPECT_EQ(r.correct1, 0);
  EXPECT_EQ(r.correct5, 0);
}

}  // namespace
}  // namespace evoq
