// What is promised and what is verified of measurements whose outcome is planted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "certify/test_promise.h"
#include "reference/reference.h"

namespace evoq {
namespace {

TEST(Guarantee, LiesBelowTheIntervalByBothErrorsAndTheDrift) {
  EXPECT_NEAR(GuaranteedRatio(Measured(2, 2, 2, 2.1)), 1.96, 1e-12);
  EXPECT_NEAR(GuaranteedRatio(Measured(2, 2, 2, 1.5)), 1.47, 1e-12)
      << "the fastest runs differ less";
  // 2 * 0.9^sqrt(2) * 0.98 = 2 * 0.861567 * 0.98.
  EXPECT_NEAR(GuaranteedRatio(Measured(2, 1.8, 2.2, 2)), 1.688671, 1e-5);
  EXPECT_NEAR(GuaranteedRatio(Measured(0.5, 0.45, 0.6, 0.5)), 0.422168, 1e-5);
}

TEST(Guarantee, NothingIsPromisedOfADisturbedMeasurement) {
  Comparison c = Sure(3);
  EXPECT_EQ(ClaimOf(c).not_promised, "");
  EXPECT_NEAR(ClaimOf(c).guaranteed, 2.94, 1e-12);
  c.disturbance.waited = 0.29;
  EXPECT_EQ(ClaimOf(c).not_promised, "");
  c.disturbance.waited = 0.31;
  const SpeedClaim claim = ClaimOf(c);
  EXPECT_EQ(claim.guaranteed, 0);
  EXPECT_NE(claim.not_promised.find("runs waited for a processor 31% of their time"),
            std::string::npos)
      << claim.not_promised;
  c = Sure(3);
  c.rounds = 5;
  EXPECT_GT(ClaimOf(c).guaranteed, 0);
  c.rounds = 4;
  EXPECT_EQ(ClaimOf(c).guaranteed, 0);
}

using State = VerifyLine::State;

TEST_F(PromiseTest, NeverSlowerAtAndAroundItsLimit) {
  // What is guaranteed is 0.98 of what was surely measured.
  const auto at = [&](double speedup) {
    return QuantizeCertified(Job("int8", {.max_drop = 100, .never_slower = true}, Sure(speedup)),
                             samples_);
  };
  EXPECT_TRUE(at(1.0205));
  const auto refused = at(1.0203);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kConditionFailed);
  EXPECT_NE(refused.error().message().find("it may be slower: 10.000 ms beside 10.203 ms"),
            std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(QuantizeCertified(Job("int8", {.max_drop = 100}, Sure(0.5)), samples_))
      << "nobody asked for speed";
}

TEST_F(PromiseTest, ABusyMachineIsNoReasonForAFloatModel) {
  Comparison busy = Sure(3);
  busy.disturbance.others = 0.9;
  for (const char* scheme : {"auto", "int8"}) {
    const auto refused =
        QuantizeCertified(Job(scheme, {.max_drop = 100, .never_slower = true}, busy), samples_);
    ASSERT_FALSE(refused) << scheme;
    EXPECT_EQ(refused.error().code(), ErrorCode::kConditionFailed);
    EXPECT_NE(refused.error().message().find("other processes used 90% of the processors"),
              std::string::npos)
        << refused.error().message();
  }
  const auto made = QuantizeCertified(Job("auto", {.max_drop = 100}, busy), samples_);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_FALSE(made->certificate.is_float);
  EXPECT_EQ(made->certificate.speed.guaranteed, 0);
  const std::string text = ToText(made->certificate);
  EXPECT_NE(text.find("not guaranteed: other processes used 90%"), std::string::npos) << text;
  const nlohmann::json json = ToJson(made->certificate);
  EXPECT_EQ(json["speed"]["guaranteed"], 0);
  EXPECT_EQ(json["speed"]["disturbance"]["others_share"], 0.9);
  const auto back = ParseCertificate(json.dump());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(ToJson(*back), json);
}

TEST_F(PromiseTest, TheTimesOfACertificateHaveItsRatio) {
  const auto made = QuantizeCertified(Job("int8", {.max_drop = 100}, Sure(3)), samples_);
  ASSERT_TRUE(made) << made.error().message();
  const nlohmann::json speed = ToJson(made->certificate)["speed"];
  EXPECT_EQ(speed["float_p50_ms"], 30);
  EXPECT_EQ(speed["p50_ms"], 10);
  EXPECT_EQ(speed["ratio"]["value"], 3);
  EXPECT_EQ(speed["rounds"], 20);
}

TEST_F(PromiseTest, AutomaticChoiceTakesThePlantedFastestThatKeepsThePromise) {
  const auto loose = QuantizeCertified(Job("auto", {.max_drop = 100}, Sure(3)), samples_);
  ASSERT_TRUE(loose) << loose.error().message();
  // Whichever of the schemes with integer arithmetic it is, no layer stays float32.
  EXPECT_EQ(loose->certificate.layers.count("float32"), 0u);
  double best = 1e9;
  for (const TriedPlan& plan : loose->chosen.tried) best = std::min(best, plan.ms);
  EXPECT_EQ(loose->chosen.tried[0].ms, best);
  EXPECT_TRUE(loose->chosen.tried[0].keeps);
  const auto strict = QuantizeCertified(Job("auto", {.min_sqnr_db = 200}, Sure(3)), samples_);
  ASSERT_TRUE(strict) << strict.error().message();
  EXPECT_TRUE(strict->certificate.is_float);
  EXPECT_NE(loose->certificate.accuracy.sqnr_db.value, strict->certificate.accuracy.sqnr_db.value);
  // Between: what the loose one keeps exactly, and a little more.
  const double reached = loose->certificate.accuracy.sqnr_db.value;
  const auto between =
      QuantizeCertified(Job("auto", {.min_sqnr_db = reached + 0.5}, Sure(3)), samples_);
  ASSERT_TRUE(between) << between.error().message();
  EXPECT_GE(between->certificate.accuracy.sqnr_db.value, reached + 0.5);
  const auto slower = QuantizeCertified(Job("auto", {.max_drop = 100}, Sure(0.99)), samples_);
  ASSERT_TRUE(slower) << slower.error().message();
  EXPECT_TRUE(slower->certificate.is_float);
  EXPECT_NE(slower->why_float.find("nothing is faster"), std::string::npos) << slower->why_float;
}

TEST_F(PromiseTest, VerifySpeedAtAndAroundTheGuarantee) {
  EXPECT_EQ(Speed(2, {Measured(1.8, 1.7, 2, 1.8)}), State::kHolds);
  EXPECT_EQ(measured_, 1u) << "at once, with half of the time";
  EXPECT_EQ(asked_s_, 3);
  EXPECT_EQ(Speed(2, {Measured(1.8, 1.7, 1.999, 1.8)}), State::kFails);
  EXPECT_EQ(measured_, 2u) << "once more before it is said";
  EXPECT_EQ(asked_s_, 3);
  EXPECT_EQ(Speed(2, {Measured(1.8, 1.7, 1.999, 2)}), State::kHolds) << "the fastest runs";
  EXPECT_EQ(Speed(2, {Measured(1.8, 1.7, 1.999, 1.8), Measured(1.9, 1.8, 2.1, 1.9)}), State::kHolds)
      << "the first one erred";
  EXPECT_EQ(Speed(0.999, {Sure(1)}), State::kHolds);
  EXPECT_EQ(Speed(2, {Sure(1)}), State::kFails);
}

TEST_F(PromiseTest, VerifyChecksNoSpeedThatWasNotPromised) {
  const std::string path = File([](Certificate& c) {
    c.speed.guaranteed = 0, c.speed.not_promised = "the machine was busy";
  });
  const VerifyLine line = Line(path, 0, {Sure(0.1)});
  EXPECT_EQ(line.state, State::kUnchecked);
  EXPECT_NE(line.text.find("nothing is guaranteed: the machine was busy"), std::string::npos)
      << line.text;
}

TEST_F(PromiseTest, VerifySaysHowDisturbedItWas) {
  Comparison busy = Sure(3);
  busy.disturbance.others = 0.5;
  const VerifyLine line = Line(File([](Certificate& c) { c.speed.guaranteed = 2; }), 0, {busy});
  EXPECT_EQ(line.state, State::kHolds);
  EXPECT_NE(line.text.find("(disturbed: other processes used 50% of the processors)"),
            std::string::npos)
      << line.text;
  EXPECT_NE(line.text.find("10.000 ms beside 30.000 ms of the float model: 3.000x"),
            std::string::npos)
      << line.text;
}

TEST_F(PromiseTest, VerifyAccuracyAtAndJustBeyondTheLimit) {
  auto certified = QuantizeCertified(Job("int8", {.max_drop = 100}, Sure(3)), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  // The same by the definition of the operators.
  int agreed = 0;
  double signal = 0, noise = 0;
  Graph quantized = net_;
  ASSERT_TRUE(FindScheme("int8")->run(quantized, ranges_, {}));
  for (const auto& inputs : samples_.inputs) {
    const auto x = EvaluateGraph(net_, inputs), y = EvaluateGraph(quantized, inputs);
    ASSERT_TRUE(x && y);
    const auto *a = (*x)[0].data<float>(), *b = (*y)[0].data<float>();
    const int64_t n = (*x)[0].elements();
    agreed += std::max_element(a, a + n) - a == std::max_element(b, b + n) - b;
    for (int64_t i = 0; i < n; ++i)
      signal += a[i] * static_cast<double>(a[i]),
          noise += std::pow(static_cast<double>(a[i]) - b[i], 2);
  }
  const double drop = 100 * (1 - agreed / 16.0), sqnr = 10 * std::log10(signal / noise);
  EXPECT_NEAR(certified->certificate.accuracy.drop.value, drop, 1e-9);
  EXPECT_NEAR(certified->certificate.accuracy.sqnr_db.value, sqnr, 0.05);
  const auto accuracy = [&](const std::function<void(Certificate&)>& change) {
    return Line(File(change), 1, {Sure(3)}).state;
  };
  const double measured = certified->certificate.accuracy.sqnr_db.value;
  EXPECT_EQ(accuracy([&](Certificate& c) { c.limit.max_drop = drop; }), State::kHolds);
  EXPECT_EQ(accuracy([&](Certificate& c) { c.limit.max_drop = drop - 0.01; }), State::kFails);
  const auto with = [&](Metric metric, double db, bool also) {
    return accuracy([=](Certificate& c) { c.accuracy.metric = metric, c.limit = {100, db, also}; });
  };
  EXPECT_EQ(with(Metric::kSqnr, measured, false), State::kHolds);
  EXPECT_EQ(with(Metric::kSqnr, measured + 1e-6, false), State::kFails);
  EXPECT_EQ(with(Metric::kAgreement, measured + 1e-6, false), State::kHolds) << "not promised";
  EXPECT_EQ(with(Metric::kAgreement, measured + 1e-6, true), State::kFails) << "both are promised";
}

TEST_F(PromiseTest, BothPromisesAreKept) {
  const auto refused =
      QuantizeCertified(Job("int8", {.max_drop = 100, .min_sqnr_db = 150}, Sure(3)), samples_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("too much accuracy is lost"), std::string::npos)
      << refused.error().message();
  const auto made =
      QuantizeCertified(Job("int8", {.max_drop = 100, .min_sqnr_db = 1}, Sure(3)), samples_);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(made->certificate.limit.also_sqnr);
  EXPECT_NE(
      ToText(made->certificate).find("at most 100 points lost, at least 1 dB in every output"),
      std::string::npos)
      << ToText(made->certificate);
}

Certificate MadeUp() {
  Certificate c;
  c.scheme = "auto";
  c.machine = "a machine";
  c.threads = 2;
  c.speed.ratio = Measured(3, 2.9, 3.1, 3.05);
  c.speed.guaranteed = 2.8;
  c.limit = {0.5, 20};
  c.accuracy.metric = Metric::kTop1;
  c.accuracy.samples = 500;
  c.accuracy.reference = {0.812, 0.775, 0.844};
  c.accuracy.model = {0.81, 0.773, 0.842};
  c.accuracy.drop = {0.2, -1.04, 1.43};
  c.accuracy.sqnr_db = {20.5, 20.4, 20.7};
  c.accuracy.outputs = {{"y", {20.5, 20.4, 20.7}}};
  c.layers = {{"int8", 45}, {"float32", 2}};
  return c;
}

TEST(Certificates, TextByHand) {
  const std::string
      head = "  speed     10.000 ms beside 30.000 ms of the float model: 3.000x [2.900, 3.100]\n",
      guaranteed = "            guaranteed: at least 2.800x\n",
      accuracy =
          "  accuracy  top-1 81.0% [77.3, 84.2] beside 81.2% [77.5, 84.4] of the "
          "float model on 500 samples, 0.20 points lost [-1.04, 1.43], signal to "
          "noise 20.5 dB [20.4, 20.7]\n"
          "            guaranteed: at most 0.5 points lost\n",
      tail =
          "  layers    2 float32, 45 int8\n"
          "  machine   a machine, 2 threads\n";
  Certificate c = MadeUp();
  EXPECT_EQ(ToText(c), head + guaranteed + accuracy + tail);
  c.speed.ratio.disturbance.others = 0.1;
  EXPECT_EQ(ToText(c), head +
                           "            disturbed: other processes used 10% of the processors\n" +
                           guaranteed + accuracy + tail);
  c.speed.not_promised = "too busy";
  EXPECT_EQ(ToText(c), head + "            not guaranteed: too busy\n" + accuracy + tail);
  c.is_float = true;
  c.threads = 1;
  EXPECT_EQ(ToText(c), "  speed     10.000 ms: this is the float model\n" + accuracy +
                           "  layers    2 float32, 45 int8\n  machine   a machine, 1 thread\n");
  c.accuracy.metric = Metric::kAgreement;
  EXPECT_EQ(ToText(c.accuracy),
            "the float model's class on 81.0% [77.3, 84.2] of 500 samples, signal to noise 20.5 dB "
            "[20.4, 20.7]");
  c.accuracy.outputs.push_back({"z", {12.1, 11.8, 12.5}});
  c.accuracy.sqnr_db = c.accuracy.worst()->sqnr_db;
  EXPECT_EQ(ToText(c.accuracy),
            "the float model's class on 81.0% [77.3, 84.2] of 500 samples, signal to noise 12.1 dB "
            "[11.8, 12.5] in z, the worst of 2 outputs");
  EXPECT_EQ(ToText(c.limit, Metric::kSqnr), "at least 20 dB in every output");
  // Without noise there is nothing to say of it; nor where outputs are not known.
  c = MadeUp();
  const std::string quiet = "the float model's class on 81.0% [77.3, 84.2] of 500 samples";
  c.accuracy.metric = Metric::kAgreement;
  c.accuracy.outputs[0].sqnr_db = c.accuracy.sqnr_db = {INFINITY, INFINITY, INFINITY};
  EXPECT_EQ(ToText(c.accuracy), quiet);
  c = MadeUp();
  c.accuracy.metric = Metric::kAgreement;
  c.accuracy.outputs.clear();
  EXPECT_EQ(ToText(c.accuracy), quiet);
  c.accuracy.metric = Metric::kSqnr;
  EXPECT_EQ(ToText(c.accuracy), "signal to noise 20.5 dB [20.4, 20.7] on 500 samples");
}

TEST(Certificates, JsonByHand) {
  Certificate c = MadeUp();
  c.samples_crc = 7, c.random_samples = 8, c.data_limit = 9;
  c.float_file = "m.onnx", c.float_file_bytes = 10, c.float_file_crc = 11;
  const nlohmann::json json = ToJson(c);
  const auto interval = [](double value, double low, double high) {
    return nlohmann::json{{"value", value}, {"low", low}, {"high", high}};
  };
  const nlohmann::json &speed = json["speed"], &accuracy = json["accuracy"];
  EXPECT_EQ(speed["float_p50_ms"], 30);
  EXPECT_EQ(speed["p50_ms"], 10);
  EXPECT_EQ(speed["ratio"], interval(3, 2.9, 3.1));
  EXPECT_EQ(speed["rested"], 3.05);
  EXPECT_EQ(speed["guaranteed"], 2.8);
  EXPECT_EQ(accuracy["metric"], "top1");
  EXPECT_EQ(accuracy["samples"], 500);
  EXPECT_EQ(accuracy["float"], interval(0.812, 0.775, 0.844));
  EXPECT_EQ(accuracy["model"], interval(0.81, 0.773, 0.842));
  EXPECT_EQ(accuracy["drop"], interval(0.2, -1.04, 1.43));
  EXPECT_EQ(accuracy["max_drop"], 0.5);
  EXPECT_EQ(accuracy["sqnr_db"], interval(20.5, 20.4, 20.7));
  EXPECT_EQ(accuracy["min_sqnr_db"], 20);
  EXPECT_EQ(accuracy["samples_crc32c"], 7);
  EXPECT_EQ(accuracy["random_samples"], 8);
  EXPECT_EQ(accuracy["data_limit"], 9);
  EXPECT_EQ(json["layers"], (nlohmann::json{{"float32", 2}, {"int8", 45}}));
  EXPECT_EQ(json["float_model"]["file"], "m.onnx");
  EXPECT_EQ(json["float_model"]["bytes"], 10);
  EXPECT_EQ(json["float_model"]["crc32c"], 11);
  const auto back = ParseCertificate(json.dump());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(ToJson(*back), json);
  // Noise that there is none of is infinitely far below the signal: null, and back.
  c.accuracy.sqnr_db = {INFINITY, INFINITY, INFINITY};
  EXPECT_TRUE(ToJson(c)["accuracy"]["sqnr_db"]["low"].is_null());
  EXPECT_EQ(ParseCertificate(ToJson(c).dump())->accuracy.sqnr_db.low, INFINITY);
}

TEST(Certificates, OfAnOlderVersionAreStillRead) {
  Certificate c;
  c.scheme = "auto";
  c.limit = {0.5, 20};
  nlohmann::json old = ToJson(c);
  for (const char* field : {"rounds", "disturbance", "not_promised"}) old["speed"].erase(field);
  for (const char* field : {"also_sqnr", "outputs"}) old["accuracy"].erase(field);
  const auto read = ParseCertificate(old.dump());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->limit.max_drop, 0.5);
  const auto message = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json bad = ToJson(c);
    change(bad);
    const auto parsed = ParseCertificate(bad.dump());
    return parsed ? "" : parsed.error().message();
  };
  EXPECT_EQ(
      message([](auto& j) { j["speed"]["disturbance"]["others_share"] = "much"; }),
      "the certificate's field speed.disturbance.others_share is missing or of the wrong kind");
  EXPECT_EQ(message([](auto& j) { j["accuracy"]["outputs"] = {{{"name", "y"}, {"sqnr_db", 3}}}; }),
            "the certificate's field accuracy.outputs[0].sqnr_db is missing or of the wrong kind");
  EXPECT_EQ(message([](auto& j) { j["accuracy"]["outputs"] = {3}; }),
            "the certificate's field accuracy.outputs is missing or of the wrong kind");
}

// Each field at its limits, just beyond them, and of another kind.
TEST(Certificates, WhatIsWrongIsNamed) {
  const auto wrong = [](const char* pointer, const nlohmann::json& value) -> std::string {
    nlohmann::json changed = ToJson(MadeUp());
    changed[nlohmann::json::json_pointer(pointer)] = value;
    const auto parsed = ParseCertificate(changed.dump());
    if (parsed) return "";
    const std::string text = parsed.error().message(), before = "the certificate's field ",
                      after = " is missing or of the wrong kind";
    EXPECT_EQ(text.find(before), 0u) << text;
    EXPECT_EQ(text.find(after), text.size() - after.size()) << text;
    return text.substr(before.size(), text.size() - before.size() - after.size());
  };
  constexpr int64_t kOne = 1;
  EXPECT_EQ(wrong("/threads", 1), "");
  EXPECT_EQ(wrong("/threads", 1024), "");
  EXPECT_EQ(wrong("/threads", 1025), "threads");
  EXPECT_EQ(wrong("/threads", 0), "threads");
  EXPECT_EQ(wrong("/threads", kOne << 31), "threads");
  EXPECT_EQ(wrong("/speed/rounds", (kOne << 31) - 1), "");
  EXPECT_EQ(wrong("/speed/rounds", kOne << 31), "speed.rounds");
  EXPECT_EQ(wrong("/speed/rounds", -(kOne << 31)), "");
  EXPECT_EQ(wrong("/speed/rounds", -(kOne << 31) - 1), "speed.rounds");
  EXPECT_EQ(wrong("/speed/rounds", 1.5), "speed.rounds");
  EXPECT_EQ(wrong("/accuracy/samples_crc32c", (kOne << 32) - 1), "");
  EXPECT_EQ(wrong("/accuracy/samples_crc32c", kOne << 32), "accuracy.samples_crc32c");
  EXPECT_EQ(wrong("/accuracy/samples_crc32c", 0), "");
  EXPECT_EQ(wrong("/accuracy/samples_crc32c", -1), "accuracy.samples_crc32c");
  EXPECT_EQ(wrong("/accuracy/random_samples", 0), "");
  EXPECT_EQ(wrong("/accuracy/random_samples", 1'000'000), "");
  EXPECT_EQ(wrong("/accuracy/random_samples", 1'000'001), "accuracy.random_samples");
  EXPECT_EQ(wrong("/accuracy/random_samples", -1), "accuracy.random_samples");
  EXPECT_EQ(wrong("/accuracy/metric", "speed"), "accuracy.metric");
  EXPECT_EQ(wrong("/accuracy/drop/low", "little"), "accuracy.drop.low");
  EXPECT_EQ(wrong("/accuracy/outputs", "y"), "accuracy.outputs");
  EXPECT_EQ(wrong("/never_slower", 1), "never_slower");
  EXPECT_EQ(wrong("/scheme", 1), "scheme");
  EXPECT_EQ(wrong("/speed", 1), "speed");
  EXPECT_EQ(wrong("/layers", 1), "layers");
  EXPECT_EQ(wrong("/layers/int8", "many"), "layers.int8");
  EXPECT_EQ(wrong("/shapes/x", {1, 2.5}), "shapes.x");
  EXPECT_EQ(wrong("/float_model/classes", {1, 2}), "");
  EXPECT_EQ(wrong("/float_model/classes", {1, "two"}), "float_model.classes");
  EXPECT_EQ(wrong("/float_model/classes", 1), "float_model.classes");
  for (const char* text : {"", "{"}) {
    const auto parsed = ParseCertificate(text);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().message().find("the certificate: "), 0u) << parsed.error().message();
  }
  const auto array = ParseCertificate("[]");
  ASSERT_FALSE(array);
  EXPECT_EQ(array.error().message(), "the certificate is no JSON object");
}

}  // namespace
}  // namespace evoq
