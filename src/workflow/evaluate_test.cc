// What eval counts of samples of several rows.
#include "workflow/evaluate.h"

#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class EvaluateRows : public TinyFolder {
 protected:
  // The scores are the samples, two at once.
  EvalJob Job() {
    const std::string model = Model("two.onnx",
                                    "graph g\ninput %x: float32[2, 3]\n"
                                    "a: %n: float32[2, 3] = Neg(%x)\n"
                                    "b: %y: float32[2, 3] = Neg(%n)\noutput %y\n");
    const std::string x = Values("x.npy", {5, 3}, {9, 1, 2, 1, 9, 2, 1, 2, 9, 9, 1, 2, 1, 9, 2});
    const Tensor labels = Tensor::FromValues<int64_t>({5}, {0, 1, 0, 0, 1});
    EXPECT_TRUE(WriteNpy(labels, At("y.npy")));
    return {.model = model,
            .data = {x},
            .labels = At("y.npy"),
            .reference = model,
            .predictions = At("p.tsv"),
            .threads = 1};
  }
};

TEST_F(EvaluateRows, AccuracyCountsThem) {
  const auto result = Evaluate(Job());
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->samples, 2);
  EXPECT_EQ(result->rows, 4);
  EXPECT_EQ(result->labelled, 4);
  EXPECT_EQ(result->correct1, 3);
  EXPECT_EQ(result->agreed, 4);
  EXPECT_EQ(result->agreement(), 1);
  EXPECT_TRUE(result->class_scores);
  EXPECT_NE(result->warning.find("the last 1 of 5 rows is left out"), std::string::npos);
  EXPECT_EQ(ReadTextFile(At("p.tsv")).value(),
            "file\tclass\nx.npy[0]\t0\nx.npy[1]\t1\nx.npy[2]\t2\nx.npy[3]\t0\n");
}

TEST_F(EvaluateRows, TargetsAreOfEachOrOfASample) {
  EvalJob job = Job();
  job.labels.clear();
  // The targets of five rows, of which the last is left out; the scores are 1 too large once.
  job.targets = {Values("t.npy", {5, 3}, {9, 1, 2, 1, 8, 2, 1, 2, 9, 9, 1, 2, 0, 0, 0})};
  const auto rows = Evaluate(job);
  ASSERT_TRUE(rows) << rows.error().message();
  ASSERT_EQ(rows->deviations.size(), 1u);
  EXPECT_EQ(rows->deviations[0].first, "y");
  EXPECT_EQ(rows->deviations[0].second.elements, 12);
  EXPECT_DOUBLE_EQ(rows->deviations[0].second.mse(), 1.0 / 12);
  job.targets = {Values("s.npy", {2, 2, 3}, {9, 1, 2, 1, 9, 2, 1, 2, 9, 9, 1, 4})};
  const auto samples = Evaluate(job);
  ASSERT_TRUE(samples) << samples.error().message();
  EXPECT_DOUBLE_EQ(samples->deviations[0].second.mse(), 4.0 / 12);
  EXPECT_DOUBLE_EQ(samples->deviations[0].second.mae(), 2.0 / 12);
  job.targets = {Values("u.npy", {3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1})};
  const auto few = Evaluate(job);
  ASSERT_FALSE(few);
  EXPECT_NE(few.error().message().find("3 targets of 5 rows: expected one for each"),
            std::string::npos)
      << few.error().message();
  Deviation flat{.elements = 2, .squared = 2, .sum = 6, .squares = 18};
  EXPECT_FALSE(flat.r2()) << "targets that are all alike";
}

TEST_F(EvaluateRows, PartsKeepThem) {
  std::vector<std::string> files;
  for (const char* part : {"1/2", "2/2"}) {
    EvalJob job = Job();
    job.part = part;
    job.save_part = files.emplace_back(At(fmt::format("part{}", files.size())));
    ASSERT_TRUE(Evaluate(job));
  }
  const auto merged = Evaluate({.merge = files});
  ASSERT_TRUE(merged) << merged.error().message();
  EXPECT_EQ(merged->rows, 4);
  EXPECT_EQ(merged->correct1, 3);
}

}  // namespace
}  // namespace evoq
