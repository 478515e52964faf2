// Observers, parameters and corrections against figures worked out by hand or by another formula.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/bf16.h"
#include "quant/equalize.h"
#include "quant/observer.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// ---- entropy

// KL(P || Q) as docs/calibration.md has it, with P and Q written out: P is the first `keep` bins,
// all that lies above in the last one; Q is the first `keep` bins merged into `levels` groups and
// spread over the group's bins where P is not 0. A Q of 0 counts as 1e-9.
double KullbackLeibler(std::vector<double> bins, size_t keep, size_t levels) {
  bins[0] = bins[1];
  std::vector<double> p(bins.begin(), bins.begin() + keep), q(keep, 0.0);
  for (size_t i = keep; i < bins.size(); ++i) p[keep - 1] += bins[i];
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * keep / levels, end = (level + 1) * keep / levels;
    double sum = 0, filled = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += bins[i];
      if (p[i] > 0) filled += 1;
    }
    for (size_t i = begin; i < end; ++i) {
      if (p[i] > 0) q[i] = sum / filled;
    }
  }
  double p_sum = 0, q_sum = 0, divergence = 0;
  for (double v : p) p_sum += v;
  for (double v : q) q_sum += v;
  if (q_sum == 0) return INFINITY;
  for (size_t i = 0; i < keep; ++i) {
    if (p[i] > 0)
      divergence += p[i] / p_sum * std::log(p[i] / p_sum / std::max(q[i] / q_sum, 1e-9));
  }
  return divergence;
}

// The number of bins with the least divergence, the larger of equal ones.
size_t LeastDivergence(const std::vector<int64_t>& counts, size_t levels, double& margin) {
  const std::vector<double> bins(counts.begin(), counts.end());
  size_t best = 0;
  double least = INFINITY, second = INFINITY;
  for (size_t keep = levels; keep <= counts.size(); ++keep) {
    const double d = KullbackLeibler(bins, keep, levels);
    if (d <= least) {
      if (least - d > 1e-9) second = least;
      least = d;
      best = keep;
    } else {
      second = std::min(second, d);
    }
  }
  margin = second - least;
  return best;
}

TEST(Entropy, TheThresholdIsThatOfLeastDivergence) {
  struct Case {
    const char* name;
    int bins;
    std::function<double(int)> count;
  };
  const Case cases[] = {
      {"exponential", 600, [](int i) { return 1e6 * std::exp(-i / 60.0); }},
      {"normal", 512, [](int i) { return 3e5 * std::exp(-i * i / 9000.0); }},
      {"normal with outliers", 700,
       [](int i) { return 3e5 * std::exp(-i * i / 9000.0) + (i % 173 == 5 ? 3 : 0); }},
      {"two humps", 640,
       [](int i) {
         return 1000 * std::exp(-i / 30.0) + 400 * std::exp(-(i - 500) * (i - 500) / 300.0);
       }},
      {"flat", 400, [](int) { return 50; }},
      {"gaps", 520, [](int i) { return i % 3 == 0 ? 900.0 / (1 + i) : 0; }},
      {"zeros hide nothing", 512, [](int i) { return i == 0 ? 1e9 : 2e4 * std::exp(-i / 40.0); }},
  };
  for (const Case& c : cases) {
    for (const bool one_sided : {false, true}) {
      Observed o;
      o.range = {one_sided ? 0.0f : -1000.0f, 1000};
      o.histogram.low = 0;
      o.histogram.high = 0.25 * c.bins;  // a bin is 0.25 wide
      for (int i = 0; i < c.bins; ++i)
        o.histogram.counts.push_back(static_cast<int64_t>(c.count(i)));
      double margin = 0;
      const size_t keep = LeastDivergence(o.histogram.counts, one_sided ? 255 : 128, margin);
      const Range r = ObserverOf(Observer::kEntropy).choose(o, {});
      if (margin > 1e-9)
        EXPECT_EQ(r.max, 0.25f * static_cast<float>(keep))
            << c.name << ", " << one_sided << ", by " << margin;
      EXPECT_EQ(r.min, one_sided ? 0.0f : -r.max) << c.name;
      // What was seen bounds the range on both sides.
      o.range = {one_sided ? 0.0f : -7.0f, 9};
      const Range narrow = ObserverOf(Observer::kEntropy).choose(o, {});
      EXPECT_EQ(narrow.max, 9) << c.name;
      EXPECT_EQ(narrow.min, one_sided ? 0.0f : -7.0f) << c.name;
    }
  }
}

// All of |x| <= 0 is one-sided too. No more bins than levels: nothing to choose.
TEST(Entropy, SidesAndFewBins) {
  Observed o;
  o.histogram.low = 0;
  o.histogram.high = 512;
  for (int i = 0; i < 512; ++i)
    o.histogram.counts.push_back(static_cast<int64_t>(1e6 * std::exp(-i / 25.0)));
  o.range = {-2000, 0};
  const Range negative = ObserverOf(Observer::kEntropy).choose(o, {});
  o.range = {0, 2000};
  const Range positive = ObserverOf(Observer::kEntropy).choose(o, {});
  EXPECT_EQ(negative.min, -positive.max);
  EXPECT_EQ(negative.max, 0);
  EXPECT_GE(positive.max, 255);
  o.histogram.counts.resize(255);
  EXPECT_EQ(ObserverOf(Observer::kEntropy).choose(o, {}).max, 2000);
}

// ---- the other observers

// 1000 elements; 96% of them: 20 are cut at each end. From below 10 + 9 = 19 may go, the next bin
// would make 27; from above 12, with 8 it is 20.
TEST(Percentile, WhatIsCutIsCountedFromEachEnd) {
  Observed o;
  o.range = {-8, 12};
  o.histogram = {-8, 12, {10, 9, 8, 500, 400, 40, 5, 8, 8, 12}};  // bins of 2
  CalibrationOptions options;
  options.percentile = 96;
  const Range r = ObserverOf(Observer::kPercentile).choose(o, options);
  EXPECT_EQ(r.min, -4);
  EXPECT_EQ(r.max, 8);
  options.percentile = 100;
  const Range all = ObserverOf(Observer::kPercentile).choose(o, options);
  EXPECT_EQ(all.min, -8);
  EXPECT_EQ(all.max, 12);
  options.percentile = 99;  // 5 at each end: less than the first bins hold
  EXPECT_EQ(ObserverOf(Observer::kPercentile).choose(o, options).min, -8);
  options.percentile = 98;  // 10: all of the first bin
  EXPECT_EQ(ObserverOf(Observer::kPercentile).choose(o, options).min, -6);
  EXPECT_EQ(ObserverOf(Observer::kPercentile).choose(o, options).max, 12);
  // Nearly everything is cut: one bin stays.
  options.percentile = 1e-6;
  const Range one = ObserverOf(Observer::kPercentile).choose(o, options);
  EXPECT_GT(one.max, one.min);
}

// No position of either end among the 64 gives a smaller mean squared error than the chosen one.
TEST(Mse, NeitherEndCanBeImproved) {
  for (const bool one_sided : {false, true}) {
    Observed o;
    o.range = {one_sided ? 0.0f : -40.0f, 60};
    o.histogram = {o.range.min, o.range.max, std::vector<int64_t>(1000, 0)};
    for (int i = 0; i < 1000; ++i)
      o.histogram.counts[i] =
          static_cast<int64_t>(1e5 * std::exp(-std::fabs(o.histogram.centre(i)) / 3)) +
          (i % 400 == 7);
    const Range r = ObserverOf(Observer::kMse).choose(o, {});
    const auto error = [&](double low, double high) {
      const double step = (high - low) / 255;
      double sum = 0;
      for (int i = 0; i < 1000; ++i) {
        const double x = o.histogram.centre(i), clipped = std::clamp(x, low, high);
        sum += static_cast<double>(o.histogram.counts[i]) *
               (clipped == x ? step * step / 12 : (x - clipped) * (x - clipped));
      }
      return sum;
    };
    const double chosen = error(r.min, r.max);
    EXPECT_LT(r.max, 50);
    EXPECT_LT(chosen, 0.5 * error(o.range.min, o.range.max));
    for (int k = 1; k <= 64; ++k) {
      EXPECT_GE(error(r.min, 60.0 * k / 64), chosen * (1 - 1e-6)) << k;
      if (!one_sided) EXPECT_GE(error(-40.0 * k / 64, r.max), chosen * (1 - 1e-6)) << k;
    }
  }
}

constexpr char kProduct[] = R"(graph product
input %x: float32[2, 3]
const %w: float32[3, 2]
m: %y: float32[2, 2] = MatMul(%x, %w)
output %y
)";

SamplesFn Given(const std::vector<Tensor>& samples) {
  return [samples](const std::function<Status(std::span<const Tensor>)>& body) -> Status {
    for (const Tensor& sample : samples) EVOQ_TRY(body(std::span(&sample, 1)));
    return {};
  };
}

// Extremes [-1, 5], [-3, 2], [0, 7]: min -1, then -1 + 0.01 (-3 + 1) = -1.02, then -1.02 + 0.01
// * 1.02 = -1.0098; max 5, 4.97, 4.9903. Channels (columns): sums 1 + 2 - 3 + 0.5 + 7 + 1 = 8.5
// over 6, ...
TEST(Calibrate, MovingAveragesAndChannelsByHand) {
  const Graph net = MakeNet(kProduct);
  const std::vector<Tensor> samples = {
      Tensor::FromValues<float>(Shape{2, 3}, {1, -1, 5, 2, 0, 0}),
      Tensor::FromValues<float>(Shape{2, 3}, {-3, 1, 2, 0.5f, 0, 2}),
      Tensor::FromValues<float>(Shape{2, 3}, {7, 0, 1, 1, 3, 0})};
  CalibrationOptions options;
  options.observer = Observer::kMovingAverage;
  const auto ranges = Calibrate(net, Reference(), Given(samples), options);
  ASSERT_TRUE(ranges) << ranges.error().message();
  const Range& x = ranges->at("x");
  EXPECT_NEAR(x.min, -1.0098, 1e-6);
  EXPECT_NEAR(x.max, 4.9903, 1e-6);
  ASSERT_EQ(x.channel_means.size(), 3);
  EXPECT_FLOAT_EQ(x.channel_means[0], 8.5f / 6);
  EXPECT_FLOAT_EQ(x.channel_means[1], 3.0f / 6);
  EXPECT_FLOAT_EQ(x.channel_means[2], 10.0f / 6);
  EXPECT_EQ(x.channel_max, (std::vector<float>{7, 3, 5}));
}

// The channels of an image are its axis 1.
TEST(Calibrate, ChannelsOfImages) {
  const Graph net = MakeNet(R"(graph image
input %x: float32[1, 2, 1, 3]
const %w: float32[2, 2, 1, 1]
c: %y: float32[1, 2, 1, 3] = Conv(%x, %w)
output %y
)");
  const auto ranges =
      Calibrate(net, Reference(),
                Given({Tensor::FromValues<float>(Shape{1, 2, 1, 3}, {1, 2, -6, 10, 20, 30}),
                       Tensor::FromValues<float>(Shape{1, 2, 1, 3}, {0, 0, 0, 0, 0, 6})}),
                {});
  ASSERT_TRUE(ranges) << ranges.error().message();
  EXPECT_EQ(ranges->at("x").channel_means, (std::vector<float>{-0.5f, 11}));
  EXPECT_EQ(ranges->at("x").channel_max, (std::vector<float>{6, 30}));
  EXPECT_EQ(ranges->at("x").min, -6);
  EXPECT_EQ(ranges->at("x").max, 30);
}

// Counting elements into bins: [0, 256) in 256 bins, one of each of 0..255 and the end itself,
// which is in the last bin. 2 of 257 are cut at each end by 98.4436%: a bin's lower border belongs
// to it.
TEST(Calibrate, ElementsOnBordersCountAbove) {
  const Graph net =
      MakeNet("graph g\ninput %x: float32[1, 257]\nr: %y: float32[1, 257] = Relu(%x)\noutput %y\n");
  std::vector<float> values;
  for (int i = 0; i <= 256; ++i) values.push_back(static_cast<float>(i));
  CalibrationOptions options;
  options.observer = Observer::kPercentile;
  options.bins = 256;
  options.percentile = 100 * (1 - 4.0 / 257) + 1e-9;  // cut: just under 2
  const auto ranges = Calibrate(net, Reference(),
                                Given({Tensor::FromValues<float>(Shape{1, 257}, values)}), options);
  ASSERT_TRUE(ranges) << ranges.error().message();
  EXPECT_EQ(ranges->at("x").min, 1);    // the bin of 0 has one element
  EXPECT_EQ(ranges->at("x").max, 256);  // the last bin has two, 255 and 256
}

TEST(Calibrate, OptionsHaveLimits) {
  const Graph net = MakeNet(kProduct);
  const auto fails = [&](const CalibrationOptions& options) {
    return !Calibrate(net, Reference(), RandomSamples(net, 2), options).has_value();
  };
  EXPECT_TRUE(fails({.bins = 255}));
  EXPECT_FALSE(fails({.bins = 256}));
  EXPECT_FALSE(fails({.bins = 1 << 20}));
  EXPECT_TRUE(fails({.bins = (1 << 20) + 1}));
  EXPECT_TRUE(fails({.percentile = 0}));
  EXPECT_FALSE(fails({.percentile = 100}));
  EXPECT_TRUE(fails({.percentile = 100.0001}));
  EXPECT_TRUE(fails({.percentile = NAN}));
}

// ---- parameters

// 4 / 255 = 2056.03 / 2^17, up to 12 bits: 2057. 3 / 127 = 3096.19 / 2^17: 3097. Zero: 1 / (2057 /
// 2^17) = 63.72.
TEST(Params, ScalesAndZeroPointsByHand) {
  const QuantParams u = ActivationParams({-1, 3}, DType::kUint8, false),
                    s = ActivationParams({-1, 3}, DType::kInt8, false);
  EXPECT_EQ(u.scales[0], 2057 * 0x1p-17f);
  EXPECT_EQ(u.zero_points[0], 64);
  EXPECT_EQ(s.scales[0], 2057 * 0x1p-17f);
  EXPECT_EQ(s.zero_points[0], -64);
  EXPECT_EQ(ActivationParams({-1, 3}, DType::kUint8, true).scales[0], 3097 * 0x1p-17f);
  EXPECT_EQ(ActivationParams({-3, 1}, DType::kInt8, true).scales[0], 3097 * 0x1p-17f);
  // Ranges on one side of 0 are widened to hold it.
  EXPECT_EQ(ActivationParams({1, 3}, DType::kUint8, false).scales[0],
            ActivationParams({0, 3}, DType::kUint8, false).scales[0]);
  EXPECT_EQ(ActivationParams({-3, -1}, DType::kUint8, false).zero_points[0], 255);
  EXPECT_EQ(ActivationParams({-3, -1}, DType::kInt8, false).zero_points[0], 127);
  EXPECT_EQ(ActivationParams({0, 0}, DType::kUint8, false), QuantParams::PerTensor(1, 0));
  EXPECT_EQ(ActivationParams({0, 0}, DType::kInt8, false), QuantParams::PerTensor(1, -128));
  EXPECT_EQ(ActivationParams({0, 0}, DType::kUint8, true), QuantParams::PerTensor(1, 128));
  EXPECT_EQ(ActivationParams({0, 1e-30f}, DType::kUint8, false).scales[0], 0x1p-60f);
}

TEST(Params, WeightScalesFollowTheirAxis) {
  const Tensor w = Tensor::FromValues<float>(Shape{2, 3}, {127, -1, 0.5f, 2, 254, -63.5f});
  const Tensor columns = QuantizeWeight(w, 1);
  EXPECT_EQ(columns.type().quant->axis, 1);
  EXPECT_EQ(columns.type().quant->scales, (std::vector<float>{1, 2, 0.5f}));
  EXPECT_EQ(std::vector<int8_t>(columns.values<int8_t>().begin(), columns.values<int8_t>().end()),
            (std::vector<int8_t>{127, 0, 1, 2, 127, -127}));
  const Tensor rows = QuantizeWeight(w, 0);
  EXPECT_EQ(rows.type().quant->scales, (std::vector<float>{1, 2}));
  EXPECT_EQ(std::vector<int8_t>(rows.values<int8_t>().begin(), rows.values<int8_t>().end()),
            (std::vector<int8_t>{127, -1, 0, 1, 127, -32}));  // -31.75, 0.5 to even
  EXPECT_EQ(QuantizeWeight(w, -1).type().quant->scales, (std::vector<float>{2}));
  // Lower bounds: of each channel; of one scale for all, the largest.
  const std::vector<float> least = {0.25f, 4, 0.5f};
  EXPECT_EQ(QuantizeWeight(w, 1, least).type().quant->scales, (std::vector<float>{1, 4, 0.5f}));
  EXPECT_EQ(QuantizeWeight(w, -1, least).type().quant->scales, (std::vector<float>{4}));
}

// |b| / (0.999 * 2^30) / s.
TEST(Params, LeastScalesOfWeightsKeepTheBiasInItsRange) {
  const Tensor bias = Tensor::FromValues<float>(Shape{2}, {-3e6f, 0});
  const auto least = LeastWeightScales(bias, 0.5f);
  ASSERT_EQ(least.size(), 2);
  EXPECT_NEAR(least[0], 3e6 / (0.999 * 1073741824) / 0.5, 1e-9);
  EXPECT_EQ(least[1], 0);
  QuantParams weight;
  weight.axis = 0;
  weight.scales = {0.25f, 0.5f};
  weight.zero_points = {0, 0};
  const Tensor q = QuantizeBias(
      Tensor::FromValues<float>(Shape{4}, {1.0625f, 1.125f, -1e12f, 1e12f}), 0.5f, weight);
  EXPECT_EQ(std::vector<int32_t>(q.values<int32_t>().begin(), q.values<int32_t>().end()),
            (std::vector<int32_t>{8, 4, -1073741824, 1073741824}));  // 8.5 and 4.5 to even
}

TEST(Params, RangesOfConstantsHoldZero) {
  const auto r = RangeOf(Tensor::FromValues<float>(Shape{3}, {2, 5, 3}));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->min, 0);
  EXPECT_EQ(r->max, 5);
  EXPECT_EQ(RangeOf(Tensor::FromValues<float>(Shape{2}, {-2, -5}))->min, -5);
  EXPECT_FALSE(RangeOf(Tensor::FromValues<float>(Shape{2}, {-2, NAN})));
  EXPECT_FALSE(RangeOf(Tensor::FromValues<float>(Shape{2}, {-INFINITY, 1})));
}

// ---- bias correction

// Stored weights with scale 1 of real ones that are 0.1, 0.2, ... larger: the errors are -0.1,
// -0.2, ... each, so that the sums show which mean each one met. Means 1, 10, 100, 1000.
std::vector<double> ErrorsOf(const Node& node, const Shape& shape,
                             const std::vector<float>& means) {
  Tensor real = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  QuantParams params;
  params.axis = node.op == "MatMul" ? 1 : 0;
  params.scales.assign(static_cast<size_t>(shape[params.axis].value), 1);
  params.zero_points.assign(params.scales.size(), 0);
  Tensor stored = Tensor::Allocate(TensorType(DType::kInt8, shape, params));
  for (int64_t i = 0; i < real.elements(); ++i) {
    stored.mutable_data<int8_t>()[i] = static_cast<int8_t>(i);
    real.mutable_data<float>()[i] = static_cast<float>(i) + 0.125f * static_cast<float>(i + 1);
  }
  return WeightErrorMeans(node, real, stored, means);
}

Node Linear(const char* op, int64_t group = 1) {
  Node node{.op = op, .name = "n"};
  if (group != 1) node.attrs.Set("group", group);
  return node;
}

TEST(BiasCorrection, EachWeightMeetsTheMeanOfItsOwnChannel) {
  const std::vector<float> means = {1, 10, 100, 1000};
  const auto eighths = [](std::vector<double> sums) {
    for (double& s : sums) s *= -0.125;
    return sums;
  };
  // 4 inputs, 2 outputs: (1..4) . means, (5..8) . means
  EXPECT_EQ(ErrorsOf(Linear("Conv"), {2, 4, 1, 1}, means), eighths({4321, 8765}));
  // Two groups: outputs 0 and 1 read channels 0 and 1, outputs 2 and 3 read channels 2 and 3.
  EXPECT_EQ(ErrorsOf(Linear("Conv", 2), {4, 2, 1, 1}, means),
            eighths({1 + 20, 3 + 40, 500 + 6000, 700 + 8000}));
  // Depthwise, and with two outputs a channel.
  EXPECT_EQ(ErrorsOf(Linear("Conv", 4), {4, 1, 1, 1}, means), eighths({1, 20, 300, 4000}));
  EXPECT_EQ(ErrorsOf(Linear("Conv", 2), {4, 1, 1, 1}, {1, 10}), eighths({1, 2, 30, 40}));
  // Two taps: both of a channel meet its mean.
  EXPECT_EQ(ErrorsOf(Linear("Conv", 2), {2, 2, 1, 2}, means),
            eighths({1 + 2 + 30 + 40, 500 + 600 + 7000 + 8000}));
  // [C, M]
  EXPECT_EQ(ErrorsOf(Linear("MatMul"), {4, 2}, means),
            eighths({1 + 30 + 500 + 7000, 2 + 40 + 600 + 8000}));
  // Other numbers of channels, transposed convolutions: no correction.
  EXPECT_TRUE(ErrorsOf(Linear("Conv"), {2, 4, 1, 1}, {1, 10}).empty());
  EXPECT_TRUE(ErrorsOf(Linear("Conv", 2), {4, 4, 1, 1}, means).empty());
  EXPECT_TRUE(ErrorsOf(Linear("ConvTranspose"), {4, 2, 1, 1}, means).empty());
}

// From ranges to the int32 bias: two groups with means far apart, weights that all lose by
// rounding.
TEST(BiasCorrection, OfAGroupedConvolution) {
  Graph net = MakeNet(R"(graph grouped
input %x: float32[1, 4, 1, 1]
const %w: float32[2, 2, 1, 1]
const %b: float32[2]
c: %y: float32[1, 2, 1, 1] = Conv{group=2}(%x, %w, %b)
output %y
)");
  net.SetConstant(net.FindValue("w"),
                  Tensor::FromValues<float>(Shape{2, 2, 1, 1}, {127, 10.25f, 127, 20.25f}));
  net.SetConstant(net.FindValue("b"), Tensor::FromValues<float>(Shape{2}, {1000, 2000}));
  Ranges ranges = {{"x", {-100, 155, {1, 16, 2, 64}, {100, 100, 100, 100}}}, {"y", {-1e4f, 1e4f}}};
  for (const bool correct : {false, true}) {
    Graph q = net;
    const auto report = QuantizeStatic(q, ranges, {.correct_bias = correct, .equalize = false});
    ASSERT_TRUE(report) << report.error().message();
    const Node& conv = q.node(q.FindNode("c"));
    ASSERT_EQ(q.value(conv.input(1)).type.quant->scales, (std::vector<float>{1, 1}));
    const double scale = q.value(conv.input(0)).type.quant->scales[0];
    EXPECT_EQ(scale, 1);  // 255 / 255
    const auto bias = q.value(conv.input(2)).constant.values<int32_t>();
    // 10 and 20 are stored: the outputs miss 0.25 * 16 and 0.25 * 64.
    EXPECT_EQ(bias[0], correct ? 1004 : 1000);
    EXPECT_EQ(bias[1], correct ? 2016 : 2000);
  }
}

// ---- equalization

constexpr char kChain[] = R"(graph chain
input %x: float32[1, 1, 1, 1]
const %w: float32[2, 1, 1, 1]
const %b: float32[2]
a: %v: float32[1, 2, 1, 1] = Conv{ACTIVATION}(%x, %w, %b)
const %u: float32[SHAPE]
b: %y: float32[1, OUT, 1, 1] = Conv{group=GROUP}(%v, %u)
output %y
)";

Graph Chain(const std::string& activation, const std::string& shape, int out, int group,
            const Tensor& u) {
  std::string text = kChain;
  const auto put = [&](const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
  };
  put("ACTIVATION", activation);
  put("SHAPE", shape);
  put("OUT", std::to_string(out));
  put("GROUP", std::to_string(group));
  Graph net = MakeNet(text);
  net.SetConstant(net.FindValue("w"), Tensor::FromValues<float>(Shape{2, 1, 1, 1}, {4, 8}));
  net.SetConstant(net.FindValue("b"), Tensor::FromValues<float>(Shape{2}, {1, -2}));
  net.SetConstant(net.FindValue("u"), u);
  return net;
}

Ranges ChainRanges() { return {{"x", {-1, 1}}, {"v", {0, 4, {2, 0.25f}, {4, 1}}}, {"y", {-9, 9}}}; }

std::vector<float> Constant(const Graph& graph, const char* node, size_t input) {
  const auto values = graph.ConstantInput(graph.node(graph.FindNode(node)), input)->values<float>();
  return {values.begin(), values.end()};
}

int Equalized(Graph& net, Ranges& ranges) {
  std::set<NodeId> all(net.order().begin(), net.order().end());
  return EqualizeChannels(net, all, ranges);
}

const Tensor kTwo = Tensor::FromValues<float>(Shape{2, 1, 1, 1}, {3, 5});

// A depthwise reader takes all: t = 4 / (1.25 * 4) -> 1, 4 / (1.25 * 1) = 3.2.
TEST(Equalize, FactorsByHandBeforeADepthwiseReader) {
  for (const char* activation :
       {"activation=\"Relu\"", "activation=\"Clip\", activation_alpha=0.0, activation_beta=6.0"}) {
    Graph net = Chain(activation, "2, 1, 1, 1", 2, 2, kTwo);
    Ranges ranges = ChainRanges();
    EXPECT_EQ(Equalized(net, ranges), 1) << activation;
    EXPECT_EQ(Constant(net, "a", 1), (std::vector<float>{4, 8 * 3.2f}));
    EXPECT_EQ(Constant(net, "a", 2), (std::vector<float>{1, -2 * 3.2f}));
    EXPECT_EQ(Constant(net, "b", 1), (std::vector<float>{3, 5 * (1 / 3.2f)}));
    EXPECT_EQ(ranges.at("v").channel_max, (std::vector<float>{4, 3.2f}));
    EXPECT_EQ(ranges.at("v").channel_means, (std::vector<float>{2, 0.25f * 3.2f}));
    EXPECT_EQ(ranges.at("v").max, 4);
  }
}

// A dense one loses precision: wish[1] = sqrt((4 / 255) * |2| / (2 / 127 * sqrt(0.25 * 1))) =
// sqrt(3.984314) = 1.996075 < 3.2.
TEST(Equalize, ADenseReaderLimitsTheFactor) {
  Graph net = Chain("activation=\"Relu\"", "1, 2, 1, 1", 1, 1,
                    Tensor::FromValues<float>(Shape{1, 2, 1, 1}, {1, 2}));
  Ranges ranges = ChainRanges();
  EXPECT_EQ(Equalized(net, ranges), 1);
  EXPECT_NEAR(Constant(net, "a", 1)[1], 8 * 1.996075, 1e-4);
  EXPECT_EQ(Constant(net, "a", 1)[0], 4);
  EXPECT_NEAR(Constant(net, "b", 1)[1], 2 / 1.996075, 1e-5);
}

TEST(Equalize, WhereItDoesNotApply) {
  const auto count = [&](const std::string& activation,
                         const std::function<void(Ranges&)>& change) {
    Graph net = Chain(activation, "2, 1, 1, 1", 2, 2, kTwo);
    Ranges ranges = ChainRanges();
    change(ranges);
    return Equalized(net, ranges);
  };
  const std::string relu = "activation=\"Relu\"";
  EXPECT_EQ(count(relu, [](Ranges&) {}), 1);
  EXPECT_EQ(count("activation=\"Sigmoid\"", [](Ranges&) {}), 0);
  EXPECT_EQ(
      count("activation=\"Clip\", activation_alpha=-1.0, activation_beta=6.0", [](Ranges&) {}), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").min = -0.1f; }), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.erase("v"); }), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").channel_means.clear(); }), 0);
  EXPECT_EQ(count(relu,
                  [](Ranges& r) {
                    r.at("v").channel_max = {4, 1, 1};
                    r.at("v").channel_means = {1, 1, 1};
                  }),
            0);
  // 4 / (1.25 * 3.05) = 1.0492, 4 / (1.25 * 3.04) = 1.0526: worth it from 1.05 on.
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").channel_max[1] = 3.05f; }), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").channel_max[1] = 3.04f; }), 1);
  // A dead channel: its maximum counts as a thousandth of the range's: 4 / (1.25 * 0.004) = 800.
  Graph net = Chain(relu, "2, 1, 1, 1", 2, 2, kTwo);
  Ranges ranges = ChainRanges();
  ranges.at("v").channel_max[1] = 0;
  EXPECT_EQ(Equalized(net, ranges), 1);
  EXPECT_NEAR(Constant(net, "a", 1)[1], 8 * 800.0, 0.01);
  // Someone else reads v: the model's output, an operator that stays float.
  Graph out = Chain(relu, "2, 1, 1, 1", 2, 2, kTwo);
  out.MarkOutput(out.FindValue("v"));
  ranges = ChainRanges();
  EXPECT_EQ(Equalized(out, ranges), 0);
  Graph apart = Chain(relu, "2, 1, 1, 1", 2, 2, kTwo);
  ranges = ChainRanges();
  EXPECT_EQ(EqualizeChannels(apart, {apart.FindNode("a")}, ranges), 0);
}

// ---- the plan

// The plan of one product of depth k.
std::string ReasonOf(const std::string& text, const char* node, const QuantizeOptions& options = {},
                     const std::vector<std::string>& missing = {}) {
  const Graph net = MakeNet(text);
  Ranges ranges;
  for (int i = 0; i < net.value_count(); ++i) ranges[net.value(ValueId{i}).name] = {-1, 1};
  for (const std::string& name : missing) ranges.erase(name);
  const QuantPlan plan = MakePlan(net, ranges, options);
  const NodeId id = net.FindNode(node);
  EXPECT_NE(plan.integer.count(id) > 0, plan.reasons.count(id) > 0) << node << " in " << text;
  return plan.integer.count(id) ? "" : plan.reasons.at(id).substr(0, plan.reasons.at(id).find(':'));
}

std::string Product(int64_t depth) {
  return fmt::format(
      "graph g\ninput %x: float32[1, {0}]\nconst %w: float32[{0}, 2]\nm: %y: float32[1, 2] = "
      "MatMul(%x, %w)\noutput %y\n",
      depth);
}

TEST(Plan, DepthsThatInt32Holds) {
  EXPECT_EQ(ReasonOf(Product(33000), "m"), "");
  EXPECT_EQ(ReasonOf(Product(33001), "m"), "depth");
  const auto pair = [](int64_t depth) {
    return fmt::format(
        "graph g\ninput %a: float32[1, {0}]\ninput %b: float32[{0}, 2]\nm: %y: float32[1, 2] = "
        "MatMul(%a, %b)\noutput %y\n",
        depth);
  };
  EXPECT_EQ(ReasonOf(pair(33000), "m"), "");
  EXPECT_EQ(ReasonOf(pair(33001), "m"), "depth");
  // 2 x 11000 x 3 taps of two groups of 11000 = 33000 a sum.
  const auto conv = [](int64_t taps) {
    return fmt::format(
        "graph g\ninput %x: float32[1, 6, 1, 11100]\nconst %w: float32[2, 3, 1, {0}]\nc: %y = "
        "Conv{{group=2}}(%x, %w)\noutput %y\n",
        taps);
  };
  EXPECT_EQ(ReasonOf(conv(11000), "c"), "");
  EXPECT_EQ(ReasonOf(conv(11001), "c"), "depth");
}

TEST(Plan, WhatKeepsALinearOperatorFloat) {
  const std::string conv = R"(graph g
input %x: float32[1, 4, 3, 3]
const %w: float32[4, 4, 1, 1]
const %b: float32[4]
c: %y: float32[1, 4, 3, 3] = Conv{activation="ACT"}(%x, %w, %b, %x)
output %y
)";
  const auto with = [&](const char* activation) {
    std::string text = conv;
    text.replace(text.find("ACT"), 3, activation);
    return text;
  };
  EXPECT_EQ(ReasonOf(with("Relu"), "c"), "");
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {}, {"x"}), "no-range");
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {}, {"y"}), "no-range");
  EXPECT_EQ(ReasonOf(with("Sigmoid"), "c"), "no-range") << "y.linear was not calibrated";
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {.skip_first_last = true}), "first-or-last");
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {.exclude = {"c"}}), "excluded");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[2, 1, 4]\nconst %w: float32[2, 4, 2]\nm: %y = "
                     "MatMul(%x, %w)\noutput %y\n",
                     "m"),
            "shape");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[1, 4]\nconst %w: float32[4, 0]\nm: %y = "
                     "MatMul(%x, %w)\noutput %y\n",
                     "m"),
            "shape");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float64[1, 4]\nconst %w: float64[4, 2]\nm: %y = "
                     "MatMul(%x, %w)\noutput %y\n",
                     "m"),
            "types");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[1, 4, 3, 3]\ninput %w: float32[4, 4, 1, 1]\nm: %y "
                     "= Conv(%x, %w)\noutput %y\n",
                     "m"),
            "weights-not-constant");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[1, 4, 3, 3]\nconst %w: float32[4, 4, 1, 1]\ninput "
                     "%b: float32[4]\nm: %y = Conv(%x, %w, %b)\noutput %y\n",
                     "m"),
            "bias-not-constant");
  EXPECT_EQ(ReasonOf("graph g\ninput %b: float32[4]\ninput %x: float32[4, 4]\nm: %y = MatMul(%b, "
                     "%x)\noutput %y\n",
                     "m"),
            "weights-not-constant");
}

// Followers: all real inputs must be integers, of operators that move values one; backwards, what
// no integer node reads retreats.
TEST(Plan, FollowersAndRetreats) {
  const std::string head =
      "graph g\ninput %x: float32[1, 4, 4, 4]\ninput %z: float32[1, 4, 4, 4]\nconst %w: float32[4, "
      "4, 1, 1]\na: %a = Conv(%x, %w)\n";
  const std::string tail = "const %u: float32[4, 4, 1, 1]\nl: %l = Conv(%n, %u)\noutput %l\n";
  EXPECT_EQ(ReasonOf(head + "n: %n = Add(%a, %x)\n" + tail, "n"), "float-inputs");
  EXPECT_EQ(ReasonOf(head + "n: %n = Add(%a, %a)\n" + tail, "n"), "");
  EXPECT_EQ(ReasonOf(head + "n: %n = Add(%x, %z)\n" + tail, "n"), "float-inputs");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\n" + tail, "n"), "");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\n" + tail, "n", {}, {"n"}), "no-range");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\n" + tail, "n", {.exclude = {"n"}}), "excluded");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\noutput %n\n", "n"), "float-readers");
  EXPECT_EQ(ReasonOf(head + "n: %n = Softmax{axis=1}(%a)\n" + tail, "n"), "no-int8-kernel");
  const std::string wide = "const %u: float32[4, 8, 1, 1]\nl: %l = Conv(%n, %u)\noutput %l\n";
  EXPECT_EQ(ReasonOf(head + "n: %n = Concat{axis=1}(%a, %z)\n" + wide, "n"), "")
      << "a move follows one integer input";
  EXPECT_EQ(ReasonOf(head + "n: %n = Concat{axis=1}(%x, %z)\n" + wide, "n"), "float-inputs");
  // A Split's other output has no reader; other operators with two outputs stay.
  const std::string half =
      "const %u: float32[4, 2, 1, 1]\nl: %l = Conv(%n, %u)\noutput %l\noutput %o\n";
  EXPECT_EQ(ReasonOf(head + "n: %n, %o = Split{axis=1, num_outputs=2}(%a)\n" + half, "n"), "");
}

// A second operand of a product whose range is nearly even gets no zero point: within a factor
// of 1.25.
TEST(Static, BalancedOperandsHaveNoZeroPoint) {
  const Graph net = MakeNet(R"(graph pair
input %a: float32[1, 4]
input %b: float32[4, 2]
m: %y: float32[1, 2] = MatMul(%a, %b)
output %y
)");
  const auto zero = [&](float min, float max) {
    Graph q = net;
    const auto report = QuantizeStatic(q, {{"a", {-1, 3}}, {"b", {min, max}}, {"y", {-9, 9}}}, {});
    EXPECT_TRUE(report) << report.error().message();
    const Node& m = q.node(q.FindNode("m"));
    EXPECT_EQ(q.value(m.input(0)).type.quant->zero_points[0], 64)
        << "the first operand keeps its own";
    return q.value(m.input(1)).type.quant->zero_points[0];
  };
  EXPECT_EQ(zero(-1, 1.24f), 128);
  EXPECT_EQ(zero(-1.24f, 1), 128);
  EXPECT_EQ(zero(-1, 1.26f), 113);  // 255 / 2.26 = 112.8
  EXPECT_EQ(zero(-1.26f, 1), 142);
}

// [C, M / group, k...]: a scale for each index of axis 1, whatever the group; a bias of M numbers
// that needs larger scales raises all of them.
TEST(Static, TransposedConvolutionsHaveTheirChannelsOnAxisOne) {
  for (const int group : {1, 2}) {
    Graph net = MakeNet(fmt::format(
        "graph t\ninput %x: float32[1, 4, 3, 3]\nconst %w: float32[4, 3, 2, 2]\nconst %b: "
        "float32[{0}]\n"
        "n: %y: float32[1, {0}, 4, 4] = ConvTranspose{{group={1}}}(%x, %w, %b)\noutput %y\n",
        3 * group, group));
    Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{4, 3, 2, 2}));
    for (int64_t i = 0; i < 48; ++i)
      w.mutable_data<float>()[i] =
          static_cast<float>(127 << (i / 4 % 3)) * (i % 4 == 0 ? 1.0f : 0.5f);
    net.SetConstant(net.FindValue("w"), w);
    const auto scales = [&](float bias) {
      Tensor b = Tensor::Allocate(TensorType(DType::kFloat32, Shape{3 * group}));
      b.mutable_data<float>()[0] = bias;
      net.SetConstant(net.FindValue("b"), b);
      Graph q = net;
      const auto report = QuantizeStatic(q, {{"x", {0, 255}}, {"y", {-1, 1}}}, {});
      EXPECT_TRUE(report) << report.error().message();
      const QuantParams& params = *q.value(q.node(q.FindNode("n")).input(1)).type.quant;
      EXPECT_EQ(params.axis, 1);
      return params.scales;
    };
    EXPECT_EQ(scales(0), (std::vector<float>{1, 2, 4})) << group;
    // 3e9 / (0.999 * 2^30) = 2.797: of the first channel, or of all where channels share scales.
    const std::vector<float> raised = scales(3e9f);
    EXPECT_NEAR(raised[0], 2.797, 0.002) << group;
    EXPECT_NEAR(raised[1], group == 1 ? 2 : 2.797, 0.002) << group;
    EXPECT_EQ(raised[2], 4) << group;
  }
}

// Values that an operator only moves share one range: the smallest minimum and the largest maximum
// of all.
TEST(Static, MovedValuesShareTheUnionOfTheirRanges) {
  const Graph net = MakeNet(R"(graph join
input %x: float32[1, 2, 3, 3]
const %w: float32[2, 2, 1, 1]
a: %a: float32[1, 2, 3, 3] = Conv(%x, %w)
b: %b: float32[1, 2, 3, 3] = Conv(%x, %w)
c: %c: float32[1, 4, 3, 3] = Concat{axis=1}(%a, %b)
const %u: float32[2, 4, 1, 1]
l: %l: float32[1, 2, 3, 3] = Conv(%c, %u)
output %l
)");
  const QuantParams wanted = ActivationParams({-5, 7}, DType::kUint8, false);
  const Range wide = {-5, 2}, high = {-1, 7}, narrow = {-1, 1};
  for (const std::vector<Range>& r : std::vector<std::vector<Range>>{{wide, high, narrow},
                                                                     {high, wide, narrow},
                                                                     {narrow, high, wide},
                                                                     {wide, narrow, high}}) {
    Graph q = net;
    ASSERT_TRUE(QuantizeStatic(
        q, {{"x", {-1, 1}}, {"a", r[0]}, {"b", r[1]}, {"c", r[2]}, {"l", {-1, 1}}}, {}));
    for (const char* name : {"a", "b", "c"})
      EXPECT_EQ(*q.value(q.FindValue(name)).type.quant, wanted) << name;
  }
}

// ---- the other methods

std::string Layer(const std::string& input, const std::string& weight, const std::string& node) {
  return "graph g\ninput %x: float32[" + input + "]\nconst %w: float32[" + weight +
         "]\nn: %y = " + node + "(%x, %w)\noutput %y\n";
}

TEST(WeightsOnly, FromSoManyElementsOn) {
  for (const auto& [columns, narrowed] :
       std::vector<std::pair<int, int>>{{15, 0}, {16, 1}}) {  // 16 x 15 = 240, 16 x 16 = 256
    Graph q = MakeNet(Layer("1, 16", fmt::format("16, {}", columns), "MatMul"));
    const auto report = QuantizeWeights(q, {});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->nodes_int8, narrowed) << columns;
    EXPECT_EQ(report->nodes_total, 1);
    EXPECT_EQ(report->warnings.size(), 1 - narrowed);
    if (narrowed) EXPECT_EQ(q.value(q.node(q.FindNode("n")).input(1)).type.quant->axis, 1);
  }
  // A table has a scale for each row; per tensor it has one.
  const std::string table =
      "graph g\ninput %i: int64[3]\nconst %w: float32[64, 8]\nn: %y = Gather{axis=0}(%w, "
      "%i)\noutput %y\n";
  for (const bool per_channel : {true, false}) {
    Graph q = MakeNet(table);
    ASSERT_TRUE(QuantizeWeights(q, {.per_channel = per_channel}));
    const QuantParams& params = *q.value(q.node(q.FindNode("n")).input(0)).type.quant;
    EXPECT_EQ(params.scales.size(), per_channel ? 64 : 1);
    if (per_channel) EXPECT_EQ(params.axis, 0);
  }
}

TEST(Bf16, WhatStaysFloat) {
  const auto reason = [](const std::string& text) {
    Graph q = MakeNet(text);
    const auto report = ConvertToBf16(q, {});
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->nodes_total, 1);
    EXPECT_EQ(report->nodes_bf16 + report->nodes_float, 1);
    return report->float_reasons.empty() ? "" : report->float_reasons.at("n");
  };
  EXPECT_EQ(reason(Layer("1, 4, 3, 3", "4, 2, 2, 2", "ConvTranspose")), "");
  EXPECT_EQ(reason(Layer("1, 3, 3, 3", "3, 2, 2, 2", "ConvTranspose")),
            "shape: 3 input channels in a group, expected an even number");
  EXPECT_EQ(reason(Layer("1, 4, 3, 3", "4, 2, 2, 2", "ConvTranspose{group=2}")), "");
  EXPECT_EQ(reason(Layer("1, 6, 3, 3", "6, 2, 2, 2", "ConvTranspose{group=2}")),
            "shape: 3 input channels in a group, expected an even number");
  EXPECT_EQ(reason(Layer("2, 1, 4", "2, 4, 2", "MatMul")),
            "shape: a constant factor of rank 3, expected 2");
  EXPECT_EQ(reason(Layer("1, 3", "3, 2", "MatMul")), "");
}

// y = activation(sum * scales + bias + residual), each input quantized once: two layers on one
// input share it.
TEST(Dynamic, LayersAreWrittenAsOnnxHasThem) {
  Graph net = MakeNet(R"(graph two
input %x: float32[1, 2, 3, 3]
const %v: float32[3, 2, 1, 1]
r: %r: float32[1, 3, 3, 3] = Conv{activation="LeakyRelu", activation_alpha=0.25}(%x, %v)
const %w: float32[3, 2, 1, 1]
const %b: float32[3]
a: %a: float32[1, 3, 3, 3] = Conv{activation="Clip", activation_alpha=-1.0, activation_beta=2.0}(%x, %w, %b, %r)
output %a
)");
  Graph q = net;
  const auto report = QuantizeDynamic(q, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes_int8, 2);
  EXPECT_EQ(report->nodes_total, 2);
  EXPECT_TRUE(report->warnings.empty());
  std::map<std::string, int> ops;
  for (NodeId id : q.order()) ++ops[q.node(id).op];
  EXPECT_EQ(ops, (std::map<std::string, int>{{"DynamicQuantizeLinear", 1},
                                             {"ConvInteger", 2},
                                             {"Cast", 2},
                                             {"Mul", 4},
                                             {"Add", 2},
                                             {"Clip", 1},
                                             {"LeakyRelu", 1}}));
  EXPECT_EQ(q.value(q.FindValue("w.scale")).type.ToString(), "float32[3, 1, 1]");
  EXPECT_EQ(q.node(q.FindNode("r_activation")).attrs.Float("alpha", 0), 0.25f);
  EXPECT_GE(Sqnr(net, q), 30);
  Graph per_tensor = net;
  ASSERT_TRUE(QuantizeDynamic(per_tensor, {.per_channel = false}));
  EXPECT_EQ(per_tensor.value(per_tensor.FindValue("w.scale")).type.ToString(), "float32[1]");
}

}  // namespace
}  // namespace evoq
