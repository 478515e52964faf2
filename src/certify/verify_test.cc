// What certifying writes down and tells, and what verifying says of it, with planted speeds.
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/isa.h"
#include "certify/test_promise.h"
#include "models/models.h"
#include "profile/test_watch.h"

namespace evoq {
namespace {

using State = VerifyLine::State;

// Two outputs: no list of scores, so judged by signal to noise.
constexpr char kTwoOutputs[] = R"(graph net
input %x: float32[1, 3, 12, 12]
const %w: float32[4, 3, 1, 1]
a: %a: float32[1, 4, 12, 12] = Conv(%x, %w)
b: %b: float32[1, 4, 12, 12] = Relu(%a)
output %a
output %b
)";

class CertifyTellsTest : public PromiseTest {
 protected:
  // The job of another net that reads the same samples.
  CertifyJob JobOf(const char* text, const std::string& scheme, const Promise& promise) {
    CertifyJob job = Job(scheme, promise, Sure(3));
    job.choose.graph = MakeNet(text);
    const auto each = [this](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
      for (const auto& inputs : samples_.inputs) EVOQ_TRY(use(inputs));
      return {};
    };
    auto ranges = Calibrate(job.choose.graph, Reference(), each, {});
    EXPECT_TRUE(ranges) << ranges.error().message();
    job.choose.ranges = *ranges;
    return job;
  }
  static std::string Message(const Result<Certified>& made, ErrorCode code) {
    if (made) return "";
    EXPECT_EQ(made.error().code(), code);
    return made.error().message();
  }
};

TEST_F(CertifyTellsTest, WhoHearsOfAStageMayStopIt) {
  for (const std::string stage :
       {"running the float model", "measuring every scheme by steps", "measuring conversions",
        "searching", "measuring the result", "measuring accuracy", "measuring speed"}) {
    CertifyJob job = Job("auto", {.max_drop = 100}, Sure(3));
    job.choose.progress = [&](const std::string& now, double) -> Status {
      if (now != stage) return {};
      return Fail(ErrorCode::kConditionFailed, "stop");
    };
    job.measure = [](const Runnable&, const Runnable&,
                     const SpeedOptions& options) -> Result<SpeedClaim> {
      EVOQ_TRY(options.progress(0.5));
      return ClaimOf(Sure(3));
    };
    EXPECT_EQ(Message(QuantizeCertified(job, samples_), ErrorCode::kConditionFailed), "stop")
        << stage;
  }
}

TEST_F(CertifyTellsTest, StagesAndWhereTheTimeWent) {
  FakeWatch watch;
  const std::vector<std::string> search = {"measuring every scheme by steps",
                                           "measuring conversions", "searching",
                                           "measuring the result"};
  for (const bool automatic : {false, true}) {
    CertifyJob job = Job(automatic ? "auto" : "int8", {.max_drop = 100}, Sure(3));
    job.measure_s = 5;
    job.choose.watch = &watch;
    std::vector<std::string> stages;
    std::map<std::string, double> last;
    job.choose.progress = [&](const std::string& stage, double fraction) {
      if (stages.empty() || stages.back() != stage) stages.push_back(stage);
      last[stage] = fraction;
      // 16 samples take 1.6 s and 3.2 s, the end of the search 0.7 s.
      watch.Work(stage == "running the float model" ? 100
                 : stage == "measuring accuracy"    ? 200
                 : stage == "measuring the result"  ? 700
                                                    : 0);
      return Status();
    };
    job.measure = [&](const Runnable&, const Runnable&,
                      const SpeedOptions& options) -> Result<SpeedClaim> {
      EXPECT_EQ(options.watch, &watch);
      EXPECT_EQ(options.duration_s, 5);
      EVOQ_TRY(options.progress(0.5));
      watch.Work(4000);
      return ClaimOf(Sure(3));
    };
    const auto made = QuantizeCertified(job, samples_);
    ASSERT_TRUE(made) << made.error().message();
    std::vector<std::string> wanted = {"running the float model"};
    if (automatic) wanted.insert(wanted.end(), search.begin(), search.end());
    wanted.insert(wanted.end(), {"measuring accuracy", "measuring speed"});
    EXPECT_EQ(stages, wanted);
    EXPECT_EQ(last["running the float model"], 1);
    EXPECT_EQ(last["measuring accuracy"], 1);
    EXPECT_EQ(last["measuring speed"], 0.5);
    EXPECT_NEAR(made->spent.reference_s, 1.6, 1e-9);
    EXPECT_NEAR(made->spent.search_s, automatic ? 0.7 : 0, 1e-9);
    EXPECT_NEAR(made->spent.accuracy_s, 3.2, 1e-9);
    EXPECT_NEAR(made->spent.speed_s, 4, 1e-9);
  }
}

TEST_F(CertifyTellsTest, TheCertificateSaysWhatItIsAbout) {
  CertifyJob job = Job("int8", {.max_drop = 100, .never_slower = true}, Sure(3));
  job.preprocess = "as it was";
  job.data_limit = 77;
  samples_.random = 5;
  const auto made = QuantizeCertified(job, samples_);
  ASSERT_TRUE(made) << made.error().message();
  const Certificate& c = made->certificate;
  EXPECT_EQ(c.scheme, "int8");
  EXPECT_EQ(c.machine, MachineName(*SelectIsa()));
  EXPECT_EQ(c.threads, 1);
  EXPECT_EQ(c.shapes, (InputShapes{{"x", {1, 3, 12, 12}}}));
  EXPECT_TRUE(c.never_slower);
  EXPECT_FALSE(c.is_float);
  EXPECT_EQ(c.samples_crc, samples_.Crc());
  EXPECT_EQ(c.random_samples, 5);
  EXPECT_EQ(c.data_limit, 77);
  EXPECT_EQ(c.preprocess, "as it was");
  const auto file = MappedFile::Open(At("net.onnx"));
  ASSERT_TRUE(file);
  EXPECT_EQ(c.float_file, "net.onnx");
  EXPECT_EQ(c.float_file_bytes, static_cast<int64_t>((*file)->bytes().size()));
  EXPECT_EQ(c.float_file_crc, Crc32c((*file)->bytes()));
  EXPECT_EQ(c.layers, (std::map<std::string, int>{{"int8", 5}}));
  auto engine = EngineFromGraph(net_, {1, {}});
  ASSERT_TRUE(engine);
  EXPECT_EQ(c.float_classes, Answer(**engine, samples_)->classes);
}

// What the limit says where nothing was promised is what was measured, of the metric alone; what
// was not measured keeps its default.
TEST_F(CertifyTellsTest, WithoutAPromiseTheLimitIsWhatWasMeasured) {
  const auto classes = QuantizeCertified(Job("int8", {}, Sure(0.5)), samples_);
  ASSERT_TRUE(classes) << classes.error().message();
  const Accuracy& a = classes->certificate.accuracy;
  EXPECT_EQ(a.metric, Metric::kAgreement);
  EXPECT_EQ(classes->certificate.limit.max_drop, a.drop.high);
  EXPECT_EQ(classes->certificate.limit.min_sqnr_db, 20);
  EXPECT_FALSE(classes->certificate.limit.also_sqnr);
  // Ranges of a hundredth saturate nearly everything: worse than the 20 dB of "auto".
  CertifyJob job = JobOf(kTwoOutputs, "int8", {});
  for (auto& [name, range] : job.choose.ranges) range.min *= 0.01f, range.max *= 0.01f;
  const auto values = QuantizeCertified(job, samples_);
  ASSERT_TRUE(values) << values.error().message();
  const Accuracy& v = values->certificate.accuracy;
  EXPECT_EQ(v.metric, Metric::kSqnr);
  EXPECT_LT(v.sqnr_db.value, 15);
  EXPECT_EQ(values->certificate.limit.max_drop, 0.5);
  EXPECT_EQ(values->certificate.limit.min_sqnr_db, v.sqnr_db.low);
  EXPECT_TRUE(values->certificate.float_classes.empty());
  // "auto" has the defaults for a limit.
  job.scheme = "auto";
  const auto automatic = QuantizeCertified(job, samples_);
  ASSERT_TRUE(automatic) << automatic.error().message();
  EXPECT_EQ(automatic->certificate.limit.min_sqnr_db, 20);
  EXPECT_GE(automatic->certificate.accuracy.sqnr_db.value, 20);
}

// A promise of signal to noise alone is judged by it, whatever the outputs are.
TEST_F(CertifyTellsTest, ThePromiseChoosesTheMetric) {
  const auto metric = [&](const Promise& promise) {
    const auto made = QuantizeCertified(Job("bf16", promise, Sure(3)), samples_);
    EXPECT_TRUE(made) << made.error().message();
    return made->certificate.accuracy.metric;
  };
  EXPECT_EQ(metric({.min_sqnr_db = 10}), Metric::kSqnr);
  EXPECT_EQ(metric({.max_drop = 100, .min_sqnr_db = 10}), Metric::kAgreement);
  EXPECT_EQ(metric({.max_drop = 100}), Metric::kAgreement);
  EXPECT_EQ(metric({}), Metric::kAgreement);
  EXPECT_EQ(Message(QuantizeCertified(JobOf(kTwoOutputs, "int8", {.max_drop = 1}), samples_),
                    ErrorCode::kUsage),
            "--max-drop counts classes, and the model's 2 outputs, the first of them float32[1, 4, "
            "12, 12], are no list of scores: promise --min-sqnr DB");
  EXPECT_EQ(
      Message(QuantizeCertified(Job("int8", {.max_drop = 1}, Sure(3)), {}), ErrorCode::kUsage),
      "a promise needs data to measure on: --data DIR or --calib-random N");
}

TEST_F(CertifyTellsTest, WhyTheFloatModelWasKept) {
  // No layers: nothing to search, and the steps are those of the float model.
  const auto bare = QuantizeCertified(
      JobOf("input %x: float32[1, 3, 12, 12]\na: %y: float32[1, 3, 12, 12] = Relu(%x)\noutput %y",
            "auto", {}),
      samples_);
  ASSERT_TRUE(bare) << bare.error().message();
  EXPECT_EQ(bare->why_float,
            "it has no layer with weights outside subgraphs: there is nothing to choose");
  EXPECT_TRUE(bare->certificate.is_float);
  EXPECT_EQ(bare->certificate.layers, (std::map<std::string, int>{{"float32", 0}}));
  // The search found float32 to be the fastest: then it is what was chosen, and not kept.
  int8_ms_ = 5;
  const auto chosen = QuantizeCertified(Job("auto", {.max_drop = 100}, Sure(1)), samples_);
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_EQ(chosen->why_float, "");
  EXPECT_TRUE(chosen->certificate.is_float);
  EXPECT_EQ(chosen->certificate.layers, (std::map<std::string, int>{{"float32", 5}}));
  int8_ms_ = 1;
  // Nothing is faster by 1.000: equally fast is not faster.
  const auto equal = QuantizeCertified(Job("auto", {.max_drop = 100}, Sure(1)), samples_);
  ASSERT_TRUE(equal) << equal.error().message();
  EXPECT_EQ(equal->why_float,
            "nothing is faster: 10.000 ms beside 10.000 ms of the float model: 1.000x [1.000, "
            "1.000]");
  const auto faster = QuantizeCertified(Job("auto", {.max_drop = 100}, Sure(1.001)), samples_);
  ASSERT_TRUE(faster) << faster.error().message();
  EXPECT_EQ(faster->why_float, "");
  // The certificate of what was kept: its own float model.
  CertifyJob patient =
      Job("auto", {.max_drop = 100, .never_slower = true}, Measured(0.8, 0.7, 0.9, 0.75));
  patient.search_s = 3600;  // as much as a busy machine needs
  const auto slower = QuantizeCertified(patient, samples_);
  ASSERT_TRUE(slower) << slower.error().message();
  const Certificate& c = slower->certificate;
  EXPECT_EQ(slower->why_float.find("it may be slower: 10.000 ms beside 8.000 ms"), 0u)
      << slower->why_float;
  EXPECT_EQ(slower->why_float.find("too few for other plans"), std::string::npos);
  EXPECT_TRUE(c.is_float);
  EXPECT_EQ(c.layers, (std::map<std::string, int>{{"float32", 5}}));
  for (const double ratio : {c.speed.ratio.speedup, c.speed.ratio.low, c.speed.ratio.high,
                             c.speed.ratio.rested, c.speed.guaranteed})
    EXPECT_EQ(ratio, 1);
  EXPECT_EQ(c.speed.ratio.a_ms, 8);
  EXPECT_EQ(c.speed.ratio.b_ms, 8);
  EXPECT_EQ(c.accuracy.drop.value, 0);
  EXPECT_EQ(c.accuracy.model.value, 1);
}

TEST_F(CertifyTellsTest, TooLittleTimeIsSaid) {
  FakeWatch watch;
  watch.look_ms = 200;
  CertifyJob job = Job("auto", {.min_sqnr_db = 200}, Sure(3));
  job.search_s = 2.5;
  job.choose.watch = &watch;
  const auto made = QuantizeCertified(job, samples_);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_NE(made->why_float.find("; the search's 2.5 s were too few for other plans (--search-s)"),
            std::string::npos)
      << made->why_float;
}

class VerifyTest : public CertifyTellsTest {
 protected:
  Verification Checked(const VerifyJob& job, const Samples* samples) {
    const auto verified = Verify(job, samples);
    EXPECT_TRUE(verified) << verified.error().message();
    return verified ? *verified : Verification();
  }
  VerifyJob With(const std::string& path, std::vector<Comparison> outcomes,
                 const std::string& baseline = "") {
    VerifyJob job{path, baseline};
    job.measure = Planted(std::move(outcomes));
    return job;
  }
  // The usage error of verifying a file whose certificate went through `change`, without baseline.
  std::string Refusal(const std::function<void(Certificate&)>& change) {
    const auto verified = Verify(With(File(change), {Sure(3)}), &samples_);
    if (verified) return "";
    EXPECT_EQ(verified.error().code(), ErrorCode::kUsage);
    return verified.error().message();
  }
};

TEST_F(VerifyTest, TheMachineAndItsThreads) {
  const std::string here = MachineName(*SelectIsa()), path = File([](Certificate&) {});
  VerifyJob job = With(path, {Sure(3)}, At("net.onnx"));
  VerifyLine line = Checked(job, &samples_).lines.at(2);
  EXPECT_EQ(line.name, "machine");
  EXPECT_EQ(line.state, State::kHolds);
  EXPECT_EQ(line.text, here + ", 1 thread");
  job.threads = 2;
  line = Checked(job, &samples_).lines.at(2);
  EXPECT_EQ(line.state, State::kUnchecked);
  EXPECT_EQ(line.text,
            fmt::format("{}, 2 threads; the certificate was made on {}, 1 threads", here, here));
  const Verification elsewhere =
      Checked(With(File([](Certificate& c) { c.machine = "another", c.threads = 2; }), {Sure(3)},
                   At("net.onnx")),
              &samples_);
  EXPECT_EQ(elsewhere.lines.at(2).state, State::kUnchecked);
  EXPECT_EQ(elsewhere.lines.at(2).text,
            here + ", 2 threads; the certificate was made on another, 2 threads");
  EXPECT_TRUE(elsewhere.holds());
}

TEST_F(VerifyTest, BothHalvesOfTheMeasurementAreTold) {
  std::vector<double> told;
  VerifyJob job = With(File([](Certificate& c) { c.speed.guaranteed = 2; }), {});
  job.measure_s = 8;
  job.measure = [](const Runnable&, const Runnable&,
                   const SpeedOptions& options) -> Result<SpeedClaim> {
    EXPECT_EQ(options.duration_s, 4);
    EVOQ_TRY(options.progress(0));
    EVOQ_TRY(options.progress(1));
    return ClaimOf(Sure(1));
  };
  EXPECT_FALSE(Checked(job, &samples_).holds()) << "also without anyone to tell";
  job.progress = [&](double fraction) {
    told.push_back(fraction);
    return Status();
  };
  const Verification v = Checked(job, &samples_);
  EXPECT_FALSE(v.holds());
  EXPECT_EQ(v.lines.at(0).name, "speed");
  EXPECT_EQ(v.lines.at(0).state, State::kFails);
  EXPECT_EQ(told, (std::vector<double>{0, 0.5, 0.5, 1}));
}

TEST_F(VerifyTest, AFloatModelIsAsFastAsItself) {
  const auto state = [&](double guaranteed) {
    int8_ms_ = 5;
    auto certified = QuantizeCertified(Job("auto", {.max_drop = 100}, Sure(1)), samples_);
    EXPECT_TRUE(certified) << certified.error().message();
    certified->certificate.speed.guaranteed = guaranteed;
    certified->model.certificate = ToJson(certified->certificate).dump();
    EXPECT_TRUE(WriteEtm(certified->model, At("float.etm")));
    // Whatever is measured: the steps are the same.
    const VerifyLine line =
        Checked(With(At("float.etm"), {Sure(0.5), Sure(3)}), &samples_).lines.at(0);
    EXPECT_EQ(measured_, 1u);
    EXPECT_EQ(line.text,
              fmt::format("10.000 ms: it is the float model, {:.3f}x guaranteed", guaranteed));
    return line.state;
  };
  EXPECT_EQ(state(1), State::kHolds);
  EXPECT_EQ(state(1.001), State::kFails);
  EXPECT_EQ(state(0), State::kHolds);
}

TEST_F(VerifyTest, SamplesOfNoiseAreMadeAgain) {
  auto random = RandomInputs(net_, {}, 4);
  ASSERT_TRUE(random);
  auto certified = QuantizeCertified(Job("int8", {.max_drop = 100}, Sure(3)), *random);
  ASSERT_TRUE(certified) << certified.error().message();
  ASSERT_TRUE(WriteEtm(certified->model, At("noise.etm")));
  const VerifyLine line = Checked(With(At("noise.etm"), {Sure(3)}), nullptr).lines.at(1);
  EXPECT_EQ(line.name, "accuracy");
  EXPECT_EQ(line.state, State::kHolds);
  EXPECT_NE(line.text.find("of 4 samples, guaranteed: at most 100 points lost"), std::string::npos)
      << line.text;
  const VerifyLine none = Checked(With(File([](Certificate&) {}), {Sure(3)}), nullptr).lines.at(1);
  EXPECT_EQ(none.state, State::kUnchecked);
  EXPECT_EQ(none.text, "not checked: give the samples with --data");
}

// Of other samples the interval has to exclude the limit, of the certificate's the value does. The
// limit is impossible to keep, and within every interval of 16 samples, which is at least +-5
// points.
TEST_F(VerifyTest, OfOtherSamplesTheIntervalDecides) {
  samples_.labels.assign(16, 3);
  const auto line = [&](uint32_t other) {
    const std::string path = File([&](Certificate& c) {
      EXPECT_EQ(c.accuracy.metric, Metric::kTop1);
      c.samples_crc += other;
      c.limit.max_drop = c.accuracy.drop.value - 1;
    });
    return Line(path, 1, {Sure(3)});
  };
  EXPECT_EQ(line(0).state, State::kFails);
  EXPECT_EQ(line(0).text.find("other samples"), std::string::npos);
  EXPECT_EQ(line(1).state, State::kHolds);
  EXPECT_NE(line(1).text.find(" (other samples than the certificate's), guaranteed: "),
            std::string::npos);
}

TEST_F(VerifyTest, WhatNeedsTheFloatModelSaysSo) {
  EXPECT_EQ(Refusal([](Certificate&) {}), "");
  EXPECT_EQ(Refusal([](Certificate& c) { c.float_graph = ""; }),
            At("net.etm") +
                ": the float model cannot be rebuilt from the certificate: give "
                "--baseline net.onnx");
  const std::string outputs =
      "the promise is about the float model's outputs: give --baseline net.onnx";
  EXPECT_EQ(Refusal([](Certificate& c) { c.limit.also_sqnr = true; }), outputs);
  EXPECT_EQ(Refusal([](Certificate& c) { c.accuracy.metric = Metric::kSqnr; }), outputs);
  const std::string others =
      "these are not the samples of the certificate (16 of them): give --baseline net.onnx to "
      "measure the float model on them too";
  EXPECT_EQ(Refusal([](Certificate& c) { ++c.samples_crc; }), others);
  EXPECT_EQ(Refusal([](Certificate& c) { c.float_classes.pop_back(); }), others);
  const auto broken =
      Verify(With(File([](Certificate& c) { c.float_graph = "input"; }), {Sure(3)}), &samples_);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message().find(At("net.etm") + ": the certificate's float model: "), 0u)
      << broken.error().message();
}

// The file that is given for the float model has its size and its checksum.
TEST_F(VerifyTest, TheBaselineIsTheCertifiedFile) {
  for (const bool size : {true, false}) {
    int64_t bytes = 0;
    uint32_t crc = 0;
    const std::string path = File([&](Certificate& c) {
      bytes = c.float_file_bytes, crc = c.float_file_crc;
      if (size)
        ++c.float_file_bytes;
      else
        ++c.float_file_crc;
    });
    const auto refused = Verify(With(path, {Sure(3)}, At("net.onnx")), &samples_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
    EXPECT_EQ(refused.error().message(),
              fmt::format("{} is not the float model of the certificate: found {} bytes, CRC-32C "
                          "{:08x}, expected {} bytes, {:08x} (net.onnx)",
                          At("net.onnx"), bytes, crc, bytes + size, crc + !size));
  }
  EXPECT_FALSE(Verify(With(File([](Certificate&) {}), {Sure(3)}, At("none.onnx")), &samples_));
}

TEST_F(VerifyTest, AModelWithoutCertificate) {
  auto certified = QuantizeCertified(Job("int8", {.max_drop = 100}, Sure(3)), samples_);
  ASSERT_TRUE(certified);
  for (const bool none : {true, false}) {
    certified->model.certificate = none ? "" : "[]";
    ASSERT_TRUE(WriteEtm(certified->model, At("bare.etm")));
    const auto refused = Verify(With(At("bare.etm"), {Sure(3)}), &samples_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              At("bare.etm") + (none ? " carries no certificate: `evoq quantize --scheme auto`, "
                                       "--max-drop or --never-slower give it one"
                                     : ": the certificate is no JSON object"));
  }
}

}  // namespace
}  // namespace evoq
