// Accuracy of made-up answers, worked out by hand.
#include "certify/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "certify/certificate.h"
#include "models/models.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInf = std::numeric_limits<float>::infinity();

Tensor Floats(const std::vector<float>& values) {
  return Tensor::FromValues<float>(Shape({static_cast<int64_t>(values.size())}), values);
}
Tensor Ints(const std::vector<int64_t>& values) {
  return Tensor::FromValues<int64_t>(Shape({static_cast<int64_t>(values.size())}), values);
}

Tensor List(const std::vector<Tensor>& items) {
  return Tensor::Of(ValueKind::kSequence, TensorType(DType::kFloat32, Shape({2})), items);
}

void ExpectEnergy(const Energy& e, double signal, double noise, const char* what = "") {
  EXPECT_DOUBLE_EQ(e.signal, signal) << what;
  EXPECT_DOUBLE_EQ(e.noise, noise) << what;
}

TEST(Energy, SumsOfSquaresOfFloats) {
  ExpectEnergy(EnergyOf(Floats({1, -2, 3}), Floats({1, -1, 5})), 14, 5);
  ExpectEnergy(EnergyOf(Floats({1, -2, 3}), Floats({1, -2, 3})), 14, 0);
  ExpectEnergy(EnergyOf(Floats({}), Floats({})), 0, 0);
}

TEST(Energy, WhatIsNotFiniteInOneAloneIsInfiniteNoise) {
  ExpectEnergy(EnergyOf(Floats({1, 2}), Floats({1, kNan})), 5, kInf);
  ExpectEnergy(EnergyOf(Floats({1, 2}), Floats({1, kInf})), 5, kInf);
  ExpectEnergy(EnergyOf(Floats({1, kNan}), Floats({1, 2})), 1, kInf);
  ExpectEnergy(EnergyOf(Floats({1, kNan, kInf, -kInf}), Floats({1, kNan, kInf, -kInf})), 1, 0);
  ExpectEnergy(EnergyOf(Floats({kInf}), Floats({-kInf})), 0, kInf);
}

TEST(Energy, OtherElementsAreRightOrWrong) {
  ExpectEnergy(EnergyOf(Ints({1, 2, 3, 400}), Ints({1, 5, 3, 401})), 4, 2);
  ExpectEnergy(EnergyOf(Ints({7, 7}), Ints({7, 7})), 2, 0);
  const Tensor yes = Tensor::FromValues<std::string>(Shape({2}), {"a", "b"}),
               no = Tensor::FromValues<std::string>(Shape({2}), {"a", "c"});
  ExpectEnergy(EnergyOf(yes, no), 2, 1);
}

TEST(Energy, OutputsOfAnotherSizeAreWrongAsAWhole) {
  ExpectEnergy(EnergyOf(Floats({3, 4}), Floats({3, 4, 5})), 25, 25);
  ExpectEnergy(EnergyOf(Floats({}), Floats({3})), 0, 1, "something where nothing should be");
  ExpectEnergy(EnergyOf(Ints({1, 2, 3}), Ints({1, 2})), 3, 3);
  ExpectEnergy(EnergyOf(Ints({1, 2}), Floats({1, 2})), 2, 2);
  ExpectEnergy(EnergyOf(Floats({1, 2}), Ints({1, 2})), 5, 5);
  ExpectEnergy(EnergyOf(Floats({1, 2}), List({Floats({1, 2})})), 1, 1);
}

TEST(Energy, ListsAreRightOrWrongAsAWhole) {
  const Tensor list = List({Floats({1, 2}), Floats({3, 4})});
  ExpectEnergy(EnergyOf(list, List({Floats({1, 2}), Floats({3, 4})})), 1, 0);
  ExpectEnergy(EnergyOf(list, List({Floats({1, 2}), Floats({3, 5})})), 1, 1);
  ExpectEnergy(EnergyOf(list, Floats({1, 2})), 1, 1);
}

TEST(Class, TheFirstOfTheLargestAndNoneOfNan) {
  EXPECT_EQ(ClassOf(Floats({1, 3, 2})), 1);
  EXPECT_EQ(ClassOf(Floats({1, 3, 3})), 1) << "ties";
  EXPECT_EQ(ClassOf(Ints({4, 5, 9})), 2);
  EXPECT_EQ(ClassOf(Floats({-kInf, -kInf})), 0);
  EXPECT_EQ(ClassOf(Floats({1, kNan, 5})), -1);
  EXPECT_EQ(ClassOf(Floats({})), -1);
  EXPECT_EQ(ClassOf(Tensor::FromValues<std::string>(Shape({2}), {"a", "b"})), -1);
  EXPECT_EQ(ClassOf(List({Floats({1, 2})})), -1);
}

// Answers of these outputs: [sample][output].
Answers Of(std::vector<std::vector<Tensor>> outputs) {
  Answers answers;
  for (size_t o = 0; o < outputs[0].size(); ++o) answers.names.push_back(fmt::format("out{}", o));
  for (const auto& sample : outputs) {
    answers.classes.push_back(ClassOf(sample[0]));
    answers.elements.push_back(sample[0].elements());
  }
  answers.outputs = std::move(outputs);
  return answers;
}

Samples SamplesWith(const std::vector<std::optional<int64_t>>& labels) {
  Samples samples;
  samples.labels = labels;
  samples.inputs.resize(labels.size());
  return samples;
}

TEST(Accuracy, EveryOutputCountsByName) {
  // out0: 100 over 1, 20 dB; out1: 1000 over 1, 30 dB; out2: 4 over 1, 6.02 dB.
  const Answers reference = Of({{Floats({10, 0}), Floats({30, 10}), Floats({2})}}),
                model = Of({{Floats({10, 1}), Floats({30, 11}), Floats({3})}});
  const auto a = CompareAnswers(Metric::kSqnr, reference, model, SamplesWith({std::nullopt}));
  ASSERT_TRUE(a.has_value()) << a.error().message();
  ASSERT_EQ(a->outputs.size(), 3u);
  EXPECT_EQ(a->outputs[0].name, "out0");
  EXPECT_NEAR(a->outputs[0].sqnr_db.value, 20, 1e-9);
  EXPECT_NEAR(a->outputs[1].sqnr_db.value, 30, 1e-9);
  EXPECT_NEAR(a->outputs[2].sqnr_db.value, 6.0206, 1e-4);
  EXPECT_EQ(a->worst()->name, "out2");
  EXPECT_NEAR(a->sqnr_db.value, 6.0206, 1e-4) << "the worst one's";
  EXPECT_FALSE(a->Keeps({.min_sqnr_db = 20}));
  EXPECT_FALSE(a->Keeps({.min_sqnr_db = 6.03}));
  EXPECT_TRUE(a->Keeps({.min_sqnr_db = 6.02}));
  EXPECT_EQ(ToText(*a),
            "signal to noise 6.0 dB [6.0, 6.0] in out2, the worst of 3 outputs on 1 sample");
  // The search weighs what each output loses: 1 / 100 + 1 / 1000 + 1 / 4.
  EXPECT_NEAR(RelativeNoise(reference, model), 0.261, 1e-9);
}

TEST(Accuracy, EnergiesStandForOutputs) {
  const Answers reference = Of({{Floats({10, 0}), Floats({2})}, {Floats({0, 10}), Floats({2})}});
  const Answers model = Of({{Floats({10, 1}), Floats({2})}, {Floats({2, 10}), Floats({2.5})}});
  Answers energies = model;
  energies.outputs.clear();
  energies.energies = {{{100, 1}, {4, 0}}, {{100, 4}, {4, 0.25}}};
  const Samples samples = SamplesWith({std::nullopt, std::nullopt});
  const auto a = CompareAnswers(Metric::kSqnr, reference, model, samples),
             b = CompareAnswers(Metric::kSqnr, reference, energies, samples);
  for (size_t o : {0, 1}) {
    EXPECT_EQ(a->outputs[o].sqnr_db.value, b->outputs[o].sqnr_db.value);
    EXPECT_EQ(a->outputs[o].sqnr_db.low, b->outputs[o].sqnr_db.low);
    EXPECT_LE(a->outputs[o].sqnr_db.low, a->outputs[o].sqnr_db.value);
    EXPECT_GE(a->outputs[o].sqnr_db.high, a->outputs[o].sqnr_db.value);
  }
  EXPECT_NEAR(a->outputs[0].sqnr_db.value, 10 * std::log10(200.0 / 5), 1e-9);
  EXPECT_NEAR(RelativeNoise(reference, model), 5.0 / 200 + 0.25 / 8, 1e-12);
  EXPECT_EQ(RelativeNoise(reference, model), RelativeNoise(reference, energies));
}

// Noise where the reference is silent counts as much as the signal would.
TEST(Accuracy, NoiseBesideNoSignalCountsOnce) {
  const Answers silent = Of({{Floats({0, 0}), Floats({0})}, {Floats({0, 0}), Floats({0})}});
  const Answers noisy = Of({{Floats({0, 3}), Floats({0})}, {Floats({0, 0}), Floats({0})}});
  EXPECT_EQ(RelativeNoise(silent, noisy), 1);
  EXPECT_EQ(RelativeNoise(silent, silent), 0);
}

TEST(Accuracy, OfOtherSamplesTheIntervalDecides) {
  Accuracy a;
  a.metric = Metric::kSqnr;
  a.outputs = {{"y", {20, 18, 22}}};
  EXPECT_TRUE(a.Keeps({.min_sqnr_db = 20}));
  EXPECT_FALSE(a.Keeps({.min_sqnr_db = 20.1}));
  EXPECT_TRUE(a.Keeps({.min_sqnr_db = 22}, /*certain=*/true));
  EXPECT_FALSE(a.Keeps({.min_sqnr_db = 22.1}, /*certain=*/true));
}

TEST(Accuracy, OfNoOutputsNoSignalToNoiseIsKept) {
  Accuracy a;
  a.metric = Metric::kSqnr;
  EXPECT_FALSE(a.Keeps({.min_sqnr_db = -900}));
  a.metric = Metric::kAgreement;
  EXPECT_FALSE(a.Keeps({.min_sqnr_db = -900, .also_sqnr = true}));
  EXPECT_TRUE(a.Keeps({.min_sqnr_db = -900}));
  EXPECT_EQ(a.worst(), nullptr);
}

TEST(Accuracy, PointsAreComparedToABillionth) {
  Accuracy a;
  a.drop.value = 0.5 + 0.9e-9;
  EXPECT_TRUE(a.Keeps({.max_drop = 0.5}));
  a.drop.value = 0.5 + 1.1e-9;
  EXPECT_FALSE(a.Keeps({.max_drop = 0.5}));
}

TEST(Accuracy, NanInAnOutputKeepsNothing) {
  const Answers reference = Of({{Floats({1, 2})}}), model = Of({{Floats({kNan, kNan})}});
  const auto a = CompareAnswers(Metric::kSqnr, reference, model, SamplesWith({std::nullopt}));
  EXPECT_EQ(a->sqnr_db.value, -1000);
  EXPECT_FALSE(a->Keeps({.min_sqnr_db = -900}));
  const auto agreement =
      CompareAnswers(Metric::kAgreement, reference, model, SamplesWith({std::nullopt}));
  EXPECT_EQ(agreement->drop.value, 100) << "NaN has no class";
}

TEST(Accuracy, PointsOfTop1LostAtAndAroundTheLimit) {
  // 200 samples of class 0; the reference is right on all but one, the model wrong on two of those
  // and right on that one: 0.5 points.
  std::vector<std::vector<Tensor>> reference, model;
  for (int i = 0; i < 200; ++i) {
    reference.push_back({i == 0 ? Floats({0, 1}) : Floats({1, 0})});
    model.push_back({i == 7 || i == 9 ? Floats({0, 1}) : Floats({1, 0})});
  }
  const Samples samples = SamplesWith(std::vector<std::optional<int64_t>>(200, 0));
  const auto a = CompareAnswers(Metric::kTop1, Of(reference), Of(model), samples);
  ASSERT_TRUE(a.has_value());
  EXPECT_DOUBLE_EQ(a->reference.value, 0.995);
  EXPECT_DOUBLE_EQ(a->model.value, 0.99);
  EXPECT_NEAR(a->drop.value, 0.5, 1e-12);
  EXPECT_LT(a->drop.low, 0.5);
  EXPECT_GT(a->drop.high, 0.5);
  // Agresti and Min: b = 2.5, c = 1.5, n = 202: 1 / 202 -+ 1.959964 sqrt(4 - 1 / 202) / 202.
  EXPECT_NEAR(a->drop.low, 100 * (1 - 1.959964 * std::sqrt(4 - 1.0 / 202)) / 202, 1e-6);
  EXPECT_NEAR(a->drop.high, 100 * (1 + 1.959964 * std::sqrt(4 - 1.0 / 202)) / 202, 1e-6);
  EXPECT_TRUE(a->Keeps({.max_drop = 0.5}));
  EXPECT_FALSE(a->Keeps({.max_drop = 0.499}));
  EXPECT_TRUE(a->Keeps({.max_drop = 0.499}, /*certain=*/true));
  EXPECT_FALSE(a->Keeps({.max_drop = a->drop.low - 0.001}, /*certain=*/true));
  // A promise of both.
  EXPECT_FALSE(a->Keeps({.max_drop = 0.5, .min_sqnr_db = 60, .also_sqnr = true}));
  EXPECT_TRUE(a->Keeps({.max_drop = 0.5, .min_sqnr_db = 60}));
  EXPECT_TRUE(a->Keeps({.max_drop = 0.5, .min_sqnr_db = 15, .also_sqnr = true}))
      << "200 over 6: 15.2 dB";
  EXPECT_FALSE(a->Keeps({.max_drop = 0.4, .min_sqnr_db = 15, .also_sqnr = true}));
}

TEST(Accuracy, AgreementIsTheShareOfEqualClasses) {
  std::vector<std::vector<Tensor>> reference, model;
  for (int i = 0; i < 8; ++i) {
    reference.push_back({Floats({1, 0, 0})});
    model.push_back({i < 2 ? Floats({0, 0, 1}) : Floats({1, 0, 0})});
  }
  const auto a = CompareAnswers(Metric::kAgreement, Of(reference), Of(model),
                                SamplesWith(std::vector<std::optional<int64_t>>(8)));
  EXPECT_DOUBLE_EQ(a->model.value, 0.75);
  for (const double share : {a->reference.value, a->reference.low, a->reference.high})
    EXPECT_EQ(share, 1);
  EXPECT_DOUBLE_EQ(a->drop.value, 25);
  EXPECT_NEAR(a->drop.low, 100 * (1 - ShareInterval(6, 8).high), 1e-9);
  EXPECT_NEAR(a->drop.high, 100 * (1 - ShareInterval(6, 8).low), 1e-9);
  EXPECT_LT(a->drop.low, a->drop.high);
  EXPECT_EQ(a->samples, 8);
}

TEST(Accuracy, LabelsThatAreNoClassAndNoSamplesAreErrors) {
  const Answers one = Of({{Floats({1, 0})}});
  const auto message = [&](Metric metric, std::vector<std::optional<int64_t>> labels) {
    const auto a = CompareAnswers(metric, labels.empty() ? Answers() : one,
                                  labels.empty() ? Answers() : one, SamplesWith(labels));
    return a ? "" : a.error().message();
  };
  EXPECT_EQ(message(Metric::kTop1, {0}), "");
  EXPECT_EQ(message(Metric::kTop1, {1}), "");
  EXPECT_EQ(message(Metric::kTop1, {2}), "sample 0: label 2 of a model with 2 classes");
  EXPECT_EQ(message(Metric::kTop1, {-1}), "sample 0: label -1 of a model with 2 classes");
  EXPECT_EQ(message(Metric::kTop1, {std::nullopt}), "no sample has a label");
  EXPECT_EQ(message(Metric::kAgreement, {}), "no sample was given");
  EXPECT_EQ(message(Metric::kAgreement, {std::nullopt}), "");
}

TEST(Accuracy, OnlyASingleListOfScoresIsJudgedByItsClass) {
  const Samples unlabelled = SamplesWith({std::nullopt});
  EXPECT_EQ(ChooseMetric(unlabelled, Of({{Floats({1, 0})}})), Metric::kAgreement);
  EXPECT_EQ(ChooseMetric(unlabelled, Of({{Floats({1, 0}), Floats({1, 0})}})), Metric::kSqnr)
      << "of two outputs one would not count";
  EXPECT_EQ(ChooseMetric(unlabelled, Of({{Floats({1})}})), Metric::kSqnr);
  EXPECT_EQ(ChooseMetric(unlabelled, Of({{Floats({})}})), Metric::kSqnr);
  EXPECT_EQ(ChooseMetric(unlabelled, Of({{List({Floats({1, 0})})}})), Metric::kSqnr);
  EXPECT_EQ(ChooseMetric(unlabelled, Answers()), Metric::kSqnr);
  EXPECT_EQ(
      ChooseMetric(unlabelled, Of({{Tensor::FromValues<float>(Shape({2, 2}), {1, 2, 3, 4})}})),
      Metric::kSqnr);
  EXPECT_EQ(ChooseMetric(SamplesWith({1}), Of({{Floats({1, 0}), Floats({1, 0})}})), Metric::kTop1);
}

TEST(Answer, StopsWhereItIsTold) {
  const Graph net = MakeNet(kConvNet);
  auto engine = EngineFromGraph(net, {1, {}});
  ASSERT_TRUE(engine);
  Samples samples;
  for (int i = 0; i < 5; ++i) samples.inputs.push_back({RandomInput(net, i)});
  samples.labels.resize(5);
  const auto all = Answer(**engine, samples);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->classes.size(), 5u);
  EXPECT_EQ(all->outputs.size(), 5u);
  EXPECT_EQ(all->names.size(), 1u);
  int asked = 0;
  const auto some = Answer(**engine, samples, {&*all, nullptr, [&] { return ++asked > 3; }});
  ASSERT_TRUE(some);
  EXPECT_EQ(some->classes.size(), 3u);
  EXPECT_TRUE(some->outputs.empty());
  ASSERT_EQ(some->energies.size(), 3u);
  EXPECT_EQ(some->energies[2][0].noise, 0) << "against itself";
  EXPECT_GT(some->energies[2][0].signal, 0);
  std::vector<double> done;
  const OnProgress tell = [&](double fraction) {
    done.push_back(fraction);
    return Status();
  };
  ASSERT_TRUE(Answer(**engine, samples, {nullptr, tell, nullptr}));
  EXPECT_EQ(done, (std::vector<double>{0.2, 0.4, 0.6, 0.8, 1}));
  Answers other = *all;
  other.names.push_back("another");
  const auto refused = Answer(**engine, samples, {&other, nullptr, nullptr});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "1 outputs, the float model has 2");
}

TEST(Answer, OfAModelWithoutOutputsThereIsNone) {
  auto engine = EngineFromGraph(MakeNet("input %x: float32[1, 2]\na: %y = Relu(%x)\n"), {1, {}});
  ASSERT_TRUE(engine) << engine.error().message();
  const auto none = Answer(**engine, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "the model has no outputs");
}

// Of a text: by how much its perplexity grew, each window beside itself.
TEST(Perplexity, GrowsByTheMeanOfTheWindows) {
  Answers reference, model;
  reference.nll = {1, 2, 3};
  model.nll = {1.1, 2.1, 3.1};
  const auto same = CompareAnswers(Metric::kPerplexity, reference, model, {});
  ASSERT_TRUE(same);
  EXPECT_NEAR(same->reference.value, std::exp(2.0), 1e-9);
  EXPECT_NEAR(same->model.value, std::exp(2.1), 1e-9);
  EXPECT_NEAR(same->drop.value, 100 * (std::exp(0.1) - 1), 1e-9);
  EXPECT_NEAR(same->drop.low, same->drop.high, 1e-6) << "every window grew alike";
  EXPECT_TRUE(same->Keeps({.max_growth = 10.52}));
  EXPECT_FALSE(same->Keeps({.max_growth = 10.51}));
  model.nll = {0.9, 2.1, 3.3};
  const auto apart = CompareAnswers(Metric::kPerplexity, reference, model, {});
  ASSERT_TRUE(apart);
  EXPECT_NEAR(apart->drop.value, same->drop.value, 1e-9);
  EXPECT_LT(apart->drop.low, 0);
  EXPECT_FALSE(apart->Keeps({.max_growth = 5}));
  EXPECT_TRUE(apart->Keeps({.max_growth = 5}, /*certain=*/true));
  model.nll.pop_back();
  EXPECT_FALSE(CompareAnswers(Metric::kPerplexity, reference, model, {}));
}

TEST(Perplexity, NoiseIsTheMeanSquareOfLogarithms) {
  Answers reference, model;
  reference.log_probabilities = {{-1, -2}, {-3}};
  model.log_probabilities = {{-1.5f, -2}, {-2}};
  EXPECT_NEAR(RelativeNoise(reference, model), (0.25 + 0 + 1) / 3, 1e-9);
  EXPECT_EQ(RelativeNoise(reference, reference), 0);
}

TEST(Perplexity, ACertificateKeepsIt) {
  Certificate c;
  c.accuracy.metric = Metric::kPerplexity;
  c.limit.max_growth = 2.5;
  c.window = 128;
  c.float_nll = {1.25, 0.1};
  c.prompt_speed = SpeedClaim{};
  c.prompt_speed->guaranteed = 1.75;
  c.prompt_speed->ratio.b_ms = 3;
  const auto read = ParseCertificate(ToJson(c).dump());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->accuracy.metric, Metric::kPerplexity);
  EXPECT_EQ(read->limit.max_growth, 2.5);
  EXPECT_EQ(read->window, 128);
  EXPECT_EQ(read->float_nll, c.float_nll);
  ASSERT_TRUE(read->prompt_speed.has_value());
  EXPECT_EQ(read->prompt_speed->guaranteed, 1.75);
  EXPECT_EQ(read->prompt_speed->ratio.b_ms, 3);
  EXPECT_EQ(read->speed.guaranteed, 1);
  const std::string text = ToText(*read);
  EXPECT_NE(text.find("perplexity grows by at most 2.5%"), std::string::npos) << text;
  EXPECT_NE(text.find("  prompt    "), std::string::npos) << text;
}

// Samples of two rows: accuracy counts rows, and their labels are by row.
TEST(Accuracy, RowsOfSamples) {
  const Tensor scores = Tensor::FromValues<float>({2, 3}, {9, 1, 2, 1, 9, 2});
  EXPECT_EQ(ClassesOf(scores, 2), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(ClassesOf(scores, 3), (std::vector<int64_t>{0}));
  EXPECT_TRUE(AreClassScores(std::span(&scores, 1), 2));
  EXPECT_FALSE(AreClassScores(std::span(&scores, 1)));
  Samples samples;
  samples.Add({.name = "s", .rows = {{"a", 0}, {"b", 2}}});
  EXPECT_EQ(samples.rows, 2);
  EXPECT_EQ(samples.labelled(), 2);
  EXPECT_EQ(samples.labels_of(0).size(), 2u);
  Answers answers;
  answers.classes = {0, 1};
  answers.elements = {3, 3};
  const auto top1 = CompareAnswers(Metric::kTop1, answers, answers, samples);
  ASSERT_TRUE(top1) << top1.error().message();
  EXPECT_EQ(top1->samples, 2);
  EXPECT_EQ(top1->model.value, 0.5);
  Answers turned = answers;
  turned.classes = {1, 1};
  const auto agreement = CompareAnswers(Metric::kAgreement, answers, turned, samples);
  ASSERT_TRUE(agreement) << agreement.error().message();
  EXPECT_EQ(agreement->samples, 2);
  EXPECT_EQ(agreement->model.value, 0.5);
}

}  // namespace
}  // namespace evoq
