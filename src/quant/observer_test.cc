#include "quant/observer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "base/file.h"
#include "quant/params.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// Elements of a heavy-tailed value: a standard normal, one in 10,000 stretched by 30.
std::vector<float> HeavyTailed(int count, bool one_sided) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> x;
  for (int i = 0; i < count; ++i) {
    const float v = normal(random) * (i % 10000 == 0 ? 30 : 1);
    x.push_back(one_sided ? std::fabs(v) : v);
  }
  return x;
}

Observed Observe(const std::vector<float>& x, HistogramKind kind, int bins) {
  Observed o;
  o.range = {*std::min_element(x.begin(), x.end()), *std::max_element(x.begin(), x.end())};
  o.average = o.mean = o.range;
  if (kind == HistogramKind::kNone) return o;
  const bool magnitude = kind == HistogramKind::kMagnitude;
  o.histogram.low = magnitude ? 0 : o.range.min;
  o.histogram.high = magnitude ? std::max(-o.range.min, o.range.max) : o.range.max;
  o.histogram.counts.assign(bins, 0);
  for (float v : x) {
    const double position =
        ((magnitude ? std::fabs(v) : v) - o.histogram.low) / o.histogram.width();
    ++o.histogram.counts[std::min<int64_t>(bins - 1, static_cast<int64_t>(position))];
  }
  return o;
}

// Mean squared error of 8-bit quantization within the range.
double Mse(const std::vector<float>& x, Range range) {
  const QuantParams p = ActivationParams(range, DType::kUint8, false);
  double error = 0;
  for (float v : x) {
    const double q = std::clamp<double>(std::nearbyint(v / p.scales[0]) + p.zero_points[0], 0, 255);
    error += std::pow(v - (q - p.zero_points[0]) * p.scales[0], 2);
  }
  return error / x.size();
}

// What each observer must reach on heavy-tailed data: the completeness test of observers.inc. `low`
// and `high` bound the end of the range (whose largest value is near 60 to 90), `mse` the error.
struct Bound {
  double low, high;
};
const std::map<std::string, Bound> kBounds = {
    {"minmax", {30, 200}},     {"moving-average", {30, 200}}, {"average", {30, 200}},
    {"percentile", {3.3, 30}}, {"entropy", {2.5, 40}},        {"mse", {3, 90}},
    {"sqnr", {3, 90}},
};

TEST(Observers, EveryRowMeetsItsBound) {
  for (const ObserverDef* def : AllObservers()) {
    ASSERT_TRUE(kBounds.count(def->name))
        << "observer " << def->name << " has no bound in this test";
    EXPECT_GT(std::string(def->doc).size(), 20) << def->name;
    EXPECT_EQ(FindObserver(def->name), def);
    CalibrationOptions options;
    options.observer = def;
    EXPECT_EQ(&ObserverOf(options), def);
    for (bool one_sided : {false, true}) {
      const auto x = HeavyTailed(200000, one_sided);
      const Range r = def->choose(Observe(x, def->histogram, 2048), {});
      EXPECT_GE(r.max, kBounds.at(def->name).low) << def->name;
      EXPECT_LE(r.max, kBounds.at(def->name).high) << def->name;
      if (one_sided) {
        EXPECT_GE(r.min, 0) << def->name;
      } else {
        EXPECT_LE(r.min, -2.5) << def->name;
      }
    }
  }
}

TEST(Observers, MseIsTheBestOfAll) {
  for (bool one_sided : {false, true}) {
    const auto x = HeavyTailed(200000, one_sided);
    const auto error = [&](const ObserverDef& def) {
      return Mse(x, def.choose(Observe(x, def.histogram, 2048), {}));
    };
    const double best = error(*FindObserver("mse"));
    for (const ObserverDef* def : AllObservers()) EXPECT_LE(best, error(*def) * 1.02) << def->name;
  }
}

TEST(Observers, ConstantValuesAreHandled) {
  for (const ObserverDef* def : AllObservers()) {
    Observed o;
    o.range = o.average = o.mean = {3, 3};
    const Range r = def->choose(o, {});
    EXPECT_EQ(r.max, 3) << def->name;
  }
}

// 1e8 elements at -0.5, an outlier at each end: one more 64th at an end costs
// 1e8 / 12 * (3^2 - 2^2) / 255^2 = 641 and saves 63^2 - 62^2 = 125. The least end is 1/64, not 0.
TEST(Mse, EndsAreMultiplesOfA64th) {
  Observed o;
  o.range = {-64, 64};
  o.histogram = {-64, 64, std::vector<int64_t>(1280, 0)};
  o.histogram.counts[635] = 100000000;  // [-0.5, -0.4)
  o.histogram.counts.front() = o.histogram.counts.back() = 1;
  const Range r = FindObserver("mse")->choose(o, {});
  EXPECT_EQ(r.min, -1);
  EXPECT_EQ(r.max, 1);
}

// n elements at 0.5 and one at 64 (the centre of the last bin: 63.98). An end of T costs
// n / 12 * (T / 255)^2 by rounding and w (64 - T)^2 by cutting, least at T = 64 w / (w + k) with
// n = 12 * 255^2 * k. With k = 3: 16 for w = 1 (mse), 32 for w = 3 (sqnr).
TEST(Sqnr, CuttingWeighsThreeTimes) {
  Observed o;
  o.range = {0, 64};
  o.histogram = {0, 64, std::vector<int64_t>(2048, 0)};
  o.histogram.counts[16] = 12 * 255 * 255 * 3;
  o.histogram.counts.back() = 1;
  EXPECT_EQ(FindObserver("mse")->choose(o, {}).max, 16);
  EXPECT_EQ(FindObserver("sqnr")->choose(o, {}).max, 32);
}

TEST(Observers, PercentileCutsBothEnds) {
  Observed o;
  o.range = {-50, 50};
  o.histogram = {-50, 50, std::vector<int64_t>(100, 100)};
  CalibrationOptions options;
  options.percentile = 90;
  const Range r = FindObserver("percentile")->choose(o, options);
  EXPECT_FLOAT_EQ(r.min, -45);
  EXPECT_FLOAT_EQ(r.max, 45);
}

TEST(Params, ZeroIsExactAndTheRangeIsCovered) {
  for (DType dtype : {DType::kUint8, DType::kInt8}) {
    for (bool symmetric : {false, true}) {
      for (Range range : {Range{0, 6}, Range{-1, 3}, Range{-4, -2}, Range{2, 5}, Range{0, 0},
                          Range{-1e-30f, 1e-30f}, Range{-3e38f, 3e38f}}) {
        const QuantParams p = ActivationParams(range, dtype, symmetric);
        const TensorType type(dtype, Shape{1}, p);
        EXPECT_TRUE(ValidateQuant(type)) << type.ToString();
        // Rounding the zero point moves the ends by half a step at most.
        const double low =
            (static_cast<double>(IntegerMin(dtype)) - p.zero_points[0]) * p.scales[0];
        const double high =
            (static_cast<double>(IntegerMax(dtype)) - p.zero_points[0]) * p.scales[0];
        EXPECT_LE(low, range.min + p.scales[0] * 0.51) << type.ToString();
        EXPECT_GE(high, range.max - p.scales[0] * 0.51) << type.ToString();
        if (symmetric) EXPECT_EQ(p.zero_points[0], dtype == DType::kInt8 ? 0 : 128);
      }
    }
  }
  EXPECT_EQ(ActivationParams({0, 6}, DType::kUint8, false).zero_points[0], 0);
  EXPECT_EQ(ActivationParams({0, 6}, DType::kInt8, false).zero_points[0], -128);
}

// So that the product of two scales is exact in float32, whoever multiplies them.
TEST(Params, ScalesAreShort) {
  const auto is_short = [](float scale) {
    int exponent;
    const float bits = std::ldexp(std::frexp(scale, &exponent), 12);
    return bits == std::floor(bits);
  };
  const Tensor w = Tensor::FromValues<float>(Shape{3, 2}, {0.1f, -0.7f, 1e-20f, 3, 0.333f, 1});
  const QuantParams weights = *QuantizeWeight(w, 0).type().quant;
  for (float max : {1e-30f, 0.1f, 5.99f, 6.0f, 1e20f, 3e38f}) {
    for (bool symmetric : {false, true}) {
      const float x = ActivationParams({-0.3f * max, max}, DType::kUint8, symmetric).scales[0];
      EXPECT_TRUE(is_short(x)) << max;
      for (float y : weights.scales) {
        EXPECT_TRUE(is_short(y));
        EXPECT_EQ(static_cast<double>(x * y), static_cast<double>(x) * y) << max;
      }
    }
  }
}

TEST(Params, WeightsPerChannelAndBias) {
  const Tensor w = Tensor::FromValues<float>(Shape{3, 2}, {1, -2, 0, 0, 127, 12.7f});
  const Tensor q = QuantizeWeight(w, 0);
  const QuantParams& p = *q.type().quant;
  EXPECT_EQ(p.scales[0], 2065 * 0x1p-17f);  // 2 / 127 to 12 bits, rounded up
  EXPECT_EQ(p.scales[1], 1);
  EXPECT_EQ(std::vector<int8_t>(q.values<int8_t>().begin(), q.values<int8_t>().end()),
            (std::vector<int8_t>{63, -127, 0, 0, 127, 13}));
  const Tensor bias = Tensor::FromValues<float>(Shape{3}, {0.5f, 1e9f, -2});
  const Tensor b =
      QuantizeBias(bias, 0.1f, *QuantizeWeight(w, 0, LeastWeightScales(bias, 0.1f)).type().quant);
  EXPECT_EQ(b.values<int32_t>()[0], 317);  // 0.5 / (0.1f * 2065 * 2^-17) = 317.37
  // The zero channel's scale rose so that its bias fits.
  EXPECT_GT(b.values<int32_t>()[1], 1 << 29);
  EXPECT_LT(b.values<int32_t>()[1], 1 << 30);
  EXPECT_EQ(QuantizeWeight(w, -1).type().quant->scales.size(), 1);
}

TEST(Calibrate, MinMaxIsExactAndOrderDoesNotMatter) {
  const Graph net = MakeNet(kConvNet);
  for (const ObserverDef* def : AllObservers()) {
    CalibrationOptions options;
    options.observer = def;
    CalibrationNotes notes;
    auto ranges = Calibrate(net, Reference(), RandomSamples(net, 5), options, &notes);
    ASSERT_TRUE(ranges) << ranges.error().message();
    EXPECT_EQ(notes.samples, 5);
    EXPECT_EQ(notes.warnings, std::vector<std::string>());
    for (const char* name : {"x", "s", "d", "p", "m", "l", "l.linear", "g", "f", "c"})
      EXPECT_EQ(ranges->count(name), 1) << name;
    if (def == FindObserver("moving-average")) continue;
    const auto backwards =
        [&](const std::function<Status(std::span<const Tensor>)>& body) -> Status {
      for (int i = 4; i >= 0; --i) {
        const Tensor input = RandomInput(net, 100 + i);
        EVOQ_TRY(body(std::span(&input, 1)));
      }
      return {};
    };
    auto again = Calibrate(net, Reference(), backwards, options);
    ASSERT_TRUE(again);
    for (const auto& [name, range] : *ranges) {
      EXPECT_EQ(range.min, again->at(name).min) << def->name << " " << name;
      EXPECT_EQ(range.max, again->at(name).max) << def->name << " " << name;
    }
  }
  auto minmax = Calibrate(net, Reference(), RandomSamples(net, 1), {});
  const Tensor input = RandomInput(net, 100);
  const auto x = input.values<float>();
  EXPECT_EQ(minmax->at("x").max, *std::max_element(x.begin(), x.end()));
  EXPECT_EQ(minmax->at("s").min, 0);
}

TEST(Calibrate, BadDataIsNamed) {
  const Graph net = MakeNet(kConvNet);
  auto none = Calibrate(net, Reference(), RandomSamples(net, 0), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "calibration: no sample was given");
  for (float bad : {NAN, INFINITY}) {
    auto ranges = Calibrate(net, Reference(),
                            [&](const auto& body) -> Status {
                              Tensor input = RandomInput(net, 1);
                              EVOQ_TRY(body(std::span<const Tensor>(&input, 1)));
                              Tensor poisoned = input.Clone();
                              poisoned.mutable_data<float>()[7] = bad;
                              return body(std::span<const Tensor>(&poisoned, 1));
                            },
                            {});
    ASSERT_FALSE(ranges);
    EXPECT_NE(ranges.error().message().find("value x holds a NaN or an infinity in sample 1"),
              std::string::npos)
        << ranges.error().message();
  }
}

// Scores behind a mask of -infinity have no range; what else the network computes has.
TEST(Calibrate, InfinitiesOfAMaskHaveNoRange) {
  const Graph net = MakeNet(
      "graph net\ninput %x: float32[2, 8]\nconst %w: float32[8, 4]\nconst %v: float32[4, 4]\n"
      "const %m: bool[4] = [1, 1, 0, 1]\nconst %f: float32[] = [-inf]\n"
      "p: %p: float32[2, 4] = MatMul(%x, %w)\n"
      "fill: %s: float32[2, 4] = Where(%m, %p, %f)\n"
      "soft: %a: float32[2, 4] = Softmax(%s)\n"
      "last: %y: float32[2, 4] = MatMul(%a, %v)\noutput %y\n");
  for (const char* observer : {"minmax", "sqnr", "entropy"}) {
    CalibrationNotes notes;
    const auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4),
                                  {.observer = FindObserver(observer)}, &notes);
    ASSERT_TRUE(ranges) << ranges.error().message();
    EXPECT_FALSE(ranges->contains("s")) << observer;
    EXPECT_TRUE(ranges->contains("p") && ranges->contains("a") && ranges->contains("y"));
    EXPECT_EQ(notes.warnings, std::vector<std::string>()) << "a mask";
    Graph quantized = net;
    const auto report = QuantizeStatic(quantized, *ranges, {});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_FALSE(report->float_reasons.contains("last"));
    EXPECT_GT(Sqnr(net, quantized), 20);
  }
}

TEST(Calibrate, InfinitiesThatProductsReadAreNamed) {
  const Graph net = MakeNet(
      "graph net\ninput %x: float32[2, 4]\nconst %v: float32[4, 4]\n"
      "const %m: bool[4] = [1, 1, 0, 1]\nconst %f: float32[] = [-inf]\n"
      "fill: %s: float32[2, 4] = Where(%m, %x, %f)\n"
      "last: %y: float32[2, 4] = MatMul(%s, %v)\noutput %y\n");
  CalibrationNotes notes;
  const auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4),
                                {.observer = FindObserver("minmax")}, &notes);
  ASSERT_TRUE(ranges) << ranges.error().message();
  EXPECT_EQ(notes.warnings,
            (std::vector<std::string>{
                "calibration: 2 activations hold infinities (s, y): no range holds them, so that "
                "the products that read or write them stay in float32"}));
}

TEST(RangesFile, RoundTripAndErrors) {
  const std::string path = testing::TempDir() + "/evoq_ranges.json";
  const Ranges ranges = {{"a\"b", {-0.1f, 1e-30f}}, {"conv/1", {0, 3.4e38f, {0.1f, -2}}}};
  ASSERT_TRUE(SaveRanges(ranges, {.observer = FindObserver("entropy")}, path, 12));
  auto back = LoadRanges(path);
  ASSERT_TRUE(back) << back.error().message();
  ASSERT_EQ(back->size(), 2);
  EXPECT_EQ(back->at("a\"b").min, -0.1f);
  EXPECT_EQ(back->at("a\"b").max, 1e-30f);
  EXPECT_EQ(back->at("conv/1").max, 3.4e38f);
  EXPECT_EQ(back->at("conv/1").channel_means, (std::vector<float>{0.1f, -2}));
  EXPECT_TRUE(back->at("a\"b").channel_means.empty());
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "not JSON (0 bytes)"},
           {"[1]", "no ranges file"},
           {R"({"format": "evoq-ranges", "version": 9, "ranges": {}})", "version 9"},
           {R"({"format": "evoq-ranges", "version": 1})", "\"ranges\" is missing"},
           {R"({"format": "evoq-ranges", "version": 1, "ranges": {"a": [2, 1]}})", "range of a"},
           {R"({"format": "evoq-ranges", "version": 1, "ranges": {"a": [0, 1e99]}})", "range of a"},
           {R"({"format": "evoq-ranges", "version": 1, "ranges": {"a": 3}})", "range of a"},
           {R"({"format": "evoq-ranges", "version": 1, "ranges": {"a": [0, 1]},
               "channel_means": {"b": [1]}})",
            "has b"},
           {R"({"format": "evoq-ranges", "version": 1, "ranges": {"a": [0, 1]},
               "channel_means": {"a": ["x"]}})",
            "finite"},
       }) {
    ASSERT_TRUE(WriteFileAtomic(path, text));
    auto bad = LoadRanges(path);
    ASSERT_FALSE(bad) << text;
    EXPECT_NE(bad.error().message().find(part), std::string::npos) << bad.error().message();
  }
}

}  // namespace
}  // namespace evoq
