#include "workflow/diff.h"

#include <cmath>
#include <limits>

#include "quant/test_net.h"
#include "workflow/evaluate.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class DiffTest : public TinyFolder {
 protected:
  void SetUp() override {
    TinyFolder::SetUp();
    net_ = MakeNet(kConvNet);
    ASSERT_TRUE(ExportOnnx(net_, At("net.onnx")));
    Tensor images = Tensor::Allocate(TensorType(DType::kFloat32, Shape{6, 3, 12, 12}));
    for (int i = 0; i < 6; ++i) {
      const Tensor one = RandomInput(net_, i, i == 4 ? 40.0f : 1.0f);  // of number 4 much saturates
      std::copy_n(one.data<float>(), one.elements(),
                  images.mutable_data<float>() + i * one.elements());
    }
    ASSERT_TRUE(WriteNpy(images, At("x.npy")));
    QuantizeJob job;
    job.model = At("net.onnx");
    job.output = At("net.etm");
    job.calib = {At("x.npy")};
    job.calib_limit = 1;
    job.threads = 1;
    const auto done = Quantize(job);
    ASSERT_TRUE(done) << done.error().message();
  }

  DiffJob Job() const {
    DiffJob job;
    job.a = At("net.onnx");
    job.b = At("net.etm");
    job.probe.data = {At("x.npy")};
    job.threads = 1;
    return job;
  }

  Graph net_;
};

TEST_F(DiffTest, NamesTheFirstBadStepAndKeepsTheWorstSample) {
  DiffJob job = Job();
  job.keep = At("worst.npz");
  const auto diffed = Diff(job);
  ASSERT_TRUE(diffed) << diffed.error().message();
  EXPECT_EQ(diffed->samples, 6);
  EXPECT_EQ(diffed->bad_db, 20);
  EXPECT_EQ(diffed->worst_sample, "x.npy[4]");
  EXPECT_LT(diffed->worst_sample_db, 10);
  ASSERT_GE(diffed->first_bad, 0);
  const DiffedValue& bad = diffed->values[static_cast<size_t>(diffed->first_bad)];
  for (int i = 0; i < diffed->first_bad; ++i)
    EXPECT_GE(diffed->values[static_cast<size_t>(i)].own.sqnr_db(), 20);
  EXPECT_LT(bad.own.sqnr_db(), 20);

  const auto kept = ReadNpz(job.keep);
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_EQ(kept->count("x") + kept->count("a:" + bad.name) + kept->count("b:c"), 3u);
  // It is data: on it alone the figures are the worst sample's.
  DiffJob again = Job();
  again.probe.data = {job.keep};
  const auto one = Diff(again);
  ASSERT_TRUE(one) << one.error().message();
  EXPECT_EQ(one->samples, 1);
  EXPECT_NEAR(one->sqnr_db, diffed->worst_sample_db, 1e-9);
}

TEST_F(DiffTest, TellsAllInJson) {
  const auto diffed = Diff(Job());
  ASSERT_TRUE(diffed);
  const Told told = Tell(*diffed);
  EXPECT_NE(told.text.find("first bad step: "), std::string::npos) << told.text;
  EXPECT_NE(told.text.find("worst sample: x.npy[4]"), std::string::npos) << told.text;
  ASSERT_EQ(told.json["values"].size(), diffed->values.size());
  const DiffedValue& first = diffed->values[0];
  EXPECT_NE(told.text.find(
                fmt::format(" {:>6.1f} {:>9.6f} ", 100 * first.own_share(), first.whole.cosine())),
            std::string::npos)
      << told.text;
  EXPECT_EQ(told.json["first_bad"]["step"],
            diffed->values[static_cast<size_t>(diffed->first_bad)].step);
  for (const auto& value : told.json["values"]) {
    for (const char* key : {"sqnr_db", "cosine", "max_abs", "mean_error"}) {
      EXPECT_TRUE(value[key].is_number()) << value.dump();
      EXPECT_TRUE(value["own"].contains(key)) << value.dump();
    }
  }
}

TEST_F(DiffTest, Conditions) {
  const auto diffed = Diff(Job());
  ASSERT_TRUE(diffed);
  EXPECT_TRUE(CheckKept(*diffed, {}, {}));
  EXPECT_TRUE(CheckKept(*diffed, diffed->sqnr_db, diffed->max_error));
  for (const Status& status : {CheckKept(*diffed, diffed->sqnr_db + 0.1, {}),
                               CheckKept(*diffed, {}, diffed->max_error * 0.99)}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::kConditionFailed);
  }
  Diffed wrong = *diffed;
  wrong.max_error = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(CheckKept(wrong, {}, 1e30));
}

TEST_F(DiffTest, OneModelTwiceIsExact) {
  DiffJob job = Job();
  job.b = job.a;
  const auto diffed = Diff(job);
  ASSERT_TRUE(diffed) << diffed.error().message();
  EXPECT_EQ(diffed->bad_db, 60);
  EXPECT_EQ(diffed->first_bad, -1);
  job.reference = true;
  const auto reference = Diff(job);
  ASSERT_TRUE(reference) << reference.error().message();
  EXPECT_GT(reference->sqnr_db, 100);
  EXPECT_EQ(reference->first_bad, -1);
}

TEST_F(DiffTest, TwoCompiledModels) {
  DiffJob job = Job();
  job.a = job.b;
  const auto diffed = Diff(job);
  ASSERT_TRUE(diffed) << diffed.error().message();
  for (const DiffedValue& value : diffed->values) {
    EXPECT_EQ(value.whole.noise(), 0) << value.name;
    EXPECT_EQ(value.own.noise(), 0) << value.name;
  }
  job.reference = true;
  const auto refused = Diff(job);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
}

TEST_F(DiffTest, SaysWhatItNeeds) {
  DiffJob job = Job();
  job.probe.data.clear();
  const auto none = Diff(job);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("--data DIR, --random N, or --text F"), std::string::npos);
  job.probe.random = 2;
  EXPECT_TRUE(Diff(job));
  job.keep = At("no/such/folder/k.npz");
  EXPECT_FALSE(Diff(job));
}

// Two models that give lists of other lengths, and a class.
class OtherOutputs : public TinyFolder {
 protected:
  void SetUp() override {
    TinyFolder::SetUp();
    const char* const rest =
        "n: %n: int64[2, ?] = NonZero(%y)\nc: %c: int64[1, 1] = ArgMax{axis=1}(%y)\n"
        "output %n\noutput %c\n";
    a_ = Model("a.onnx", std::string("graph g\ninput %x: float32[1, 4]\n"
                                     "r: %y: float32[1, 4] = Relu(%x)\n") +
                             rest);
    b_ = Model("b.onnx", std::string("graph g\ninput %x: float32[1, 4]\n"
                                     "const %k: float32[1, 4] = [1, 0, 0, 9]\n"
                                     "r: %y: float32[1, 4] = Add(%x, %k)\n") +
                             rest);
    data_ = Values("x.npy", Shape{4, 4}, {0, 1, 5, 3, 0, 0, 2, -20, 0, 0, 3, -20, 0, 0, 4, -20});
  }
  std::string a_, b_, data_;
};

TEST_F(OtherOutputs, AreSetAsideOrCountedByElements) {
  DiffJob job{.a = a_, .b = b_};
  job.probe.data = {data_};
  job.threads = 1;
  const auto diffed = Diff(job);
  ASSERT_TRUE(diffed) << diffed.error().message();
  EXPECT_EQ(diffed->sized_by_data, std::vector<std::string>{"n"});
  const auto value = [&](const char* name) {
    return *std::ranges::find(diffed->values, name, &DiffedValue::name);
  };
  EXPECT_TRUE(value("y").real);
  EXPECT_FALSE(value("c").real);
  EXPECT_NEAR(value("c").whole.sqnr_db(), 10 * std::log10(4.0), 1e-9);  // one of four is another
  const Told told = Tell(*diffed);
  EXPECT_NE(told.text.find("75.00% equal"), std::string::npos) << told.text;
  ASSERT_FALSE(told.log.empty());
  EXPECT_NE(told.log[0].find("note: 1 value (n) of sizes that depend on the data"),
            std::string::npos);

  EvalJob eval{.model = b_, .data = {data_}, .reference = a_};
  eval.threads = 1;
  const auto result = Evaluate(eval);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_NEAR(result->sqnr_db, 10 * std::log10(4.0), 1e-9);  // the same figure
  EXPECT_EQ(result->judged, (std::vector{Judged::kSize, Judged::kElements}));
  EXPECT_FALSE(result->tells_classes());
  const Told said = Tell(*result);
  EXPECT_EQ(said.text.find("top-1"), std::string::npos) << said.text;
  EXPECT_NE(said.text.find("75.00% of elements equal  c"), std::string::npos) << said.text;
  EXPECT_NE(said.text.find("0.00% of samples have its size"), std::string::npos) << said.text;
  EXPECT_TRUE(said.json["agreement"].is_null());
  EXPECT_TRUE(said.json["outputs"][0]["sqnr_db"].is_null());
}

// A condition that nothing can be held to is not kept.
TEST_F(OtherOutputs, NothingThatAConditionCouldBeOf) {
  const Diffed none{.a = "a",
                    .b = "b",
                    .sized_by_data = {"n"},
                    .sqnr_db = std::numeric_limits<double>::infinity()};
  EXPECT_TRUE(CheckKept(none, {}, {}));
  EXPECT_FALSE(CheckKept(none, 20, {}));
  EXPECT_FALSE(CheckKept(none, {}, 0.1));
}

}  // namespace
}  // namespace evoq
