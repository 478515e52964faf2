// What observers and calibration find, against figures worked out by hand or by another formula.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/observer.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// ---- entropy

// The divergence of Q from P as docs/calibration.md has it, with P and Q written out: P is the
// first `keep` bins, all that lies above in the last one; Q is the first `keep` bins merged into
// `levels` groups and spread over the group's bins where P is not 0, without what lies above. A Q
// of 0 counts as 1e-9.
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
  double all = 0, divergence = 0;
  for (double v : p) all += v;
  for (size_t i = 0; i < keep; ++i) {
    if (p[i] > 0) divergence += p[i] / all * std::log(p[i] / all / std::max(q[i] / all, 1e-9));
    divergence += (q[i] - p[i]) / all;
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
      {"nothing above", 520, [](int i) { return i < 400 ? 4e3 * std::exp(-i / 90.0) : 0; }},
      {"gaps and nothing above", 420, [](int i) { return i < 300 && i % 5 != 2 ? 40 : 0; }},
      {"a high second bin", 400, [](int i) { return i == 1  ? 2e6
                                                    : i > 2 ? 4e3 / i
                                                            : 0; }},
      {"a band away from 0", 600, [](int i) { return i >= 400 && i < 570 ? 3000 + i : 0; }},
      {"a narrow band", 600, [](int i) { return i == 580             ? 1e6
                                                : i > 580 && i < 600 ? 100
                                                                     : 0; }},
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
      const Range r = FindObserver("entropy")->choose(o, {});
      if (margin > 1e-9)
        EXPECT_EQ(r.max, 0.25f * static_cast<float>(keep))
            << c.name << ", " << one_sided << ", by " << margin;
      EXPECT_EQ(r.min, one_sided ? 0.0f : -r.max) << c.name;
      // What was seen bounds the range on both sides.
      o.range = {one_sided ? 0.0f : -7.0f, 9};
      const Range narrow = FindObserver("entropy")->choose(o, {});
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
  const Range negative = FindObserver("entropy")->choose(o, {});
  o.range = {0, 2000};
  const Range positive = FindObserver("entropy")->choose(o, {});
  EXPECT_EQ(negative.min, -positive.max);
  EXPECT_EQ(negative.max, 0);
  EXPECT_GE(positive.max, 255);
  // Two-sided as soon as there is anything on the other side.
  o.range = {-2000, 2000};
  const Range both = FindObserver("entropy")->choose(o, {});
  EXPECT_LT(both.max, positive.max);
  o.range = {-2000, 0.5f};
  EXPECT_EQ(FindObserver("entropy")->choose(o, {}).min, -both.max);
  o.range = {-0.5f, 2000};
  EXPECT_EQ(FindObserver("entropy")->choose(o, {}).max, both.max);
  o.range = {0.5f, 2000};
  EXPECT_EQ(FindObserver("entropy")->choose(o, {}).max, positive.max);
  o.histogram.counts.resize(255);
  EXPECT_EQ(FindObserver("entropy")->choose(o, {}).max, 2000);
  // One element that is not 0 loses nothing in any width that holds it: the largest is taken.
  o.histogram = {0, 512, std::vector<int64_t>(512, 0)};
  o.histogram.counts[0] = 1000;
  o.histogram.counts[300] = 1;
  EXPECT_EQ(FindObserver("entropy")->choose(o, {}).max, 512);
}

// Values in a band away from 0, of which the first bin alone would be no worse if its share of what
// is kept counted: 1 before and after.
TEST(Entropy, ABandIsNotCutOffToItsFirstBin) {
  Observed o;
  o.histogram = {0, 2048, std::vector<int64_t>(2048, 0)};
  for (size_t i = 1440; i < 2048; ++i) o.histogram.counts[i] = 900;
  o.range = {1440, 2048};
  EXPECT_GT(FindObserver("entropy")->choose(o, {}).max, 2000);
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
  const Range r = FindObserver("percentile")->choose(o, options);
  EXPECT_EQ(r.min, -4);
  EXPECT_EQ(r.max, 8);
  options.percentile = 100;
  const Range all = FindObserver("percentile")->choose(o, options);
  EXPECT_EQ(all.min, -8);
  EXPECT_EQ(all.max, 12);
  options.percentile = 99;  // 5 at each end: less than the first bins hold
  EXPECT_EQ(FindObserver("percentile")->choose(o, options).min, -8);
  options.percentile = 98;  // 10: all of the first bin
  EXPECT_EQ(FindObserver("percentile")->choose(o, options).min, -6);
  EXPECT_EQ(FindObserver("percentile")->choose(o, options).max, 12);
  // Nearly everything is cut: one bin stays.
  options.percentile = 1e-6;
  const Range one = FindObserver("percentile")->choose(o, options);
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
    const Range r = FindObserver("mse")->choose(o, {});
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

// The upper end and the lower one are chosen in turn, twice, each among the 64ths of what was seen
// and 0. Elements that are 0 have no error.
TEST(Mse, TheEndsOfLeastErrorInTurn) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 60; ++trial) {
    const bool above = trial % 5 == 4;  // all elements are positive
    Observed o;
    o.range = {above ? 2.0f : -static_cast<float>(1 + random() % 40),
               static_cast<float>(3 + random() % 40)};
    if (trial % 3 == 0 && !above) o.range.max = -o.range.min;
    o.histogram = {o.range.min, o.range.max, std::vector<int64_t>(129, 0)};
    const double width = 0.2 + static_cast<double>(random() % 100) / 20;
    for (int i = 0; i < 129; ++i) {
      const double x = o.histogram.centre(i);
      o.histogram.counts[i] =
          static_cast<int64_t>(1e6 * std::exp(-std::fabs(x) / width)) + (random() % 9 == 0 ? 5 : 0);
    }
    o.histogram.counts[64] += 100000000;  // 0 itself where the ends are alike
    const auto error = [&](double low, double high) {
      double sum = 0;
      for (int i = 0; i < 129; ++i) {
        const double x = o.histogram.centre(i), off = x - std::clamp(x, low, high);
        const double inside = x == 0 ? 0 : std::pow((high - low) / 255, 2) / 12;
        sum += static_cast<double>(o.histogram.counts[i]) * (off != 0 ? off * off : inside);
      }
      return sum;
    };
    const double min = above ? 0 : o.range.min, max = o.range.max;
    double low = min, high = max;
    for (int round = 0; round < 2; ++round) {
      for (int i = 64; i >= 1; --i) {
        if (error(low, max * i / 64) < error(low, high)) high = max * i / 64;
      }
      for (int i = 64; i >= 1; --i) {
        if (error(min * i / 64, high) < error(low, high)) low = min * i / 64;
      }
    }
    const Range r = FindObserver("mse")->choose(o, {});
    EXPECT_EQ(r.min, static_cast<float>(low)) << trial;
    EXPECT_EQ(r.max, static_cast<float>(high)) << trial;
  }
  Observed constant;
  constant.range = {3, 3};
  const Range r = FindObserver("mse")->choose(constant, {});
  EXPECT_EQ(r.min, 3);
  EXPECT_EQ(r.max, 3);
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
  options.observer = FindObserver("moving-average");
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
  options.observer = FindObserver("percentile");
  options.bins = 256;
  options.percentile = 100 * (1 - 4.0 / 257) + 1e-9;  // cut: just under 2
  const auto ranges = Calibrate(net, Reference(),
                                Given({Tensor::FromValues<float>(Shape{1, 257}, values)}), options);
  ASSERT_TRUE(ranges) << ranges.error().message();
  EXPECT_EQ(ranges->at("x").min, 1);    // the bin of 0 has one element
  EXPECT_EQ(ranges->at("x").max, 256);  // the last bin has two, 255 and 256
}

// Observed by hand: bins of [min, max], or of magnitudes from 0 to the largest.
TEST(Calibrate, HistogramsAreOfWhatTheObserverAsksFor) {
  const Graph net =
      MakeNet("graph g\ninput %x: float32[1, 500]\nr: %y: float32[1, 500] = Neg(%x)\noutput %y\n");
  std::mt19937 random(3);
  for (const bool below : {false, true}) {
    // Exponential on both sides, one longer than the other.
    std::vector<std::vector<float>> samples(4);
    Observed o;
    for (auto& sample : samples) {
      for (int i = 0; i < 500; ++i) {
        const double size = -std::log((1 + static_cast<double>(random() >> 8)) / (1 << 25));
        sample.push_back(static_cast<float>((random() % 3 == 0) == below ? size : -0.4 * size));
        o.range = {std::min(o.range.min, sample.back()), std::max(o.range.max, sample.back())};
      }
    }
    std::vector<Tensor> tensors;
    for (auto& sample : samples)
      tensors.push_back(Tensor::FromValues<float>(Shape{1, 500}, sample));
    for (const ObserverDef* def :
         {FindObserver("percentile"), FindObserver("entropy"), FindObserver("mse")}) {
      const bool magnitude = def == FindObserver("entropy");
      const CalibrationOptions options = {.observer = def, .percentile = 97, .bins = 300};
      o.histogram.low = magnitude ? 0 : o.range.min;
      o.histogram.high = magnitude ? std::max(-o.range.min, o.range.max) : o.range.max;
      o.histogram.counts.assign(300, 0);
      for (const auto& sample : samples) {
        for (float x : sample) {
          const double v = magnitude ? std::fabs(x) : x;
          const double share = (v - o.histogram.low) / (double{o.histogram.high} - o.histogram.low);
          ++o.histogram.counts[std::min<size_t>(static_cast<size_t>(300 * share), 299)];
        }
      }
      const Range wanted = def->choose(o, options);
      const auto ranges = Calibrate(net, Reference(), Given(tensors), options);
      ASSERT_TRUE(ranges) << ranges.error().message();
      EXPECT_EQ(ranges->at("x").min, wanted.min) << def->name;
      EXPECT_EQ(ranges->at("x").max, wanted.max) << def->name;
    }
  }
}

// Ranges are those of activations next to operators on integers: not of constants, indices or what
// float operators pass among themselves. Channels are those of first operands.
TEST(Calibrate, WhatIsWatched) {
  const Graph net = MakeNet(R"(graph watched
input %x: float32[2, 2, 1]
input %r: float32[2, 1, 2]
input %i: int64[2]
const %k: float32[] = [3.0]
a: %a: float32[2, 2, 1] = Add(%x, %k)
m: %m: float32[2, 2, 2] = MatMul(%a, %r)
e: %e: float32[2, 2, 2] = Sub(%m, %m)
f: %f: float32[2, 2, 2] = Sub(%e, %e)
n: %n: int64[2] = Add(%i, %i)
b: %b: float32[2, 2, 1] = Neg(%x)
z: %z: float32[2, 2, 1] = Relu(%b)
output %f
output %n
output %z
)");
  for (const ObserverDef* def : AllObservers()) {
    CalibrationOptions options;
    options.observer = def;
    const Tensor inputs[] = {Tensor::FromValues<float>(Shape{2, 2, 1}, {1, 2, 3, 5}),
                             Tensor::FromValues<float>(Shape{2, 1, 2}, {1, -1, 2, -2}),
                             Tensor::FromValues<int64_t>(Shape{2}, {1, 2})};
    const auto ranges =
        Calibrate(net, Reference(), [&](const auto& body) { return body(inputs); }, options);
    ASSERT_TRUE(ranges) << ranges.error().message();
    std::vector<std::string> names;
    for (const auto& [name, range] : *ranges) {
      names.push_back(name);
      EXPECT_EQ(range.channel_means.empty(), name != "a") << name;
      EXPECT_EQ(range.channel_max.empty(), name != "a") << name;
    }
    EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "m", "r", "x", "z"})) << def->name;
    EXPECT_EQ(ranges->at("a").channel_means, (std::vector<float>{(4 + 5 + 6 + 8) / 4.0f}));
    EXPECT_EQ(ranges->at("z").min, 0);
    EXPECT_EQ(ranges->at("z").max, 0);
  }
}

// A vector is one row: its axis 0 is that of its channels.
TEST(Calibrate, ChannelsOfVectors) {
  const Graph net = MakeNet(
      "graph g\ninput %x: float32[3]\nconst %w: float32[3, 2]\nm: %y = MatMul(%x, %w)\noutput "
      "%y\n");
  const auto ranges = Calibrate(net, Reference(),
                                Given({Tensor::FromValues<float>(Shape{3}, {1, -4, 2}),
                                       Tensor::FromValues<float>(Shape{3}, {3, 0, 5})}),
                                {});
  ASSERT_TRUE(ranges) << ranges.error().message();
  EXPECT_EQ(ranges->at("x").channel_means, (std::vector<float>{2, -2, 3.5f}));
  EXPECT_EQ(ranges->at("x").channel_max, (std::vector<float>{3, 4, 5}));
}

// Values without elements tell nothing; one element does. What no sample has elements of has no
// range.
TEST(Calibrate, SamplesWithoutElements) {
  const Graph net = MakeNet(
      "graph g\ninput %x: float32[S, 2]\nr: %y = Relu(%x)\nconst %zero: int64[1] = [0]\ns: "
      "%s = Slice(%x, %zero, %zero)\nt: %t = Neg(%s)\noutput %y\noutput %t\n");
  const Tensor none = Tensor::FromValues<float>(Shape{0, 2}, {});
  const Tensor some = Tensor::FromValues<float>(Shape{1, 2}, {2, 3});
  for (const ObserverDef* def : AllObservers()) {
    CalibrationOptions options;
    options.observer = def;
    const auto ranges = Calibrate(net, Reference(), Given({none, some, none}), options);
    ASSERT_TRUE(ranges) << ranges.error().message();
    // The ranges by squared error hold 0.
    EXPECT_LE(ranges->at("x").min, 2) << def->name;
    EXPECT_GE(ranges->at("x").min, 0) << def->name << ": some reach to 0";
    EXPECT_EQ(ranges->at("x").max, 3) << def->name;
    EXPECT_EQ(ranges->count("s"), 0) << def->name;
    EXPECT_EQ(ranges->count("t"), 0) << def->name;
  }
  const Graph one = MakeNet("graph g\ninput %x: float32[1]\nr: %y = Relu(%x)\noutput %y\n");
  const auto ranges =
      Calibrate(one, Reference(), Given({Tensor::FromValues<float>(Shape{1}, {-7})}), {});
  ASSERT_TRUE(ranges) << ranges.error().message();
  EXPECT_EQ(ranges->at("x").max, -7);
}

// An error of the second pass, over the samples for the histograms, is not lost; both passes number
// their samples from 0.
TEST(Calibrate, ErrorsOfTheSecondPass) {
  const Graph net = MakeNet(kProduct);
  const Tensor x = Tensor::FromValues<float>(Shape{2, 3}, {1, -1, 5, 2, 0, 0});
  int passes = 0;
  CalibrationNotes notes;
  const auto samples = [&](const std::function<Status(std::span<const Tensor>)>& body) -> Status {
    EVOQ_TRY(body(std::span(&x, 1)));
    if (++passes == 2) return InvalidInput("the file is gone");
    return body(std::span(&x, 1));
  };
  const auto ranges =
      Calibrate(net, Reference(), samples, {.observer = FindObserver("percentile")}, &notes);
  ASSERT_FALSE(ranges);
  EXPECT_EQ(ranges.error().message(), "the file is gone");
  passes = 2;
  EXPECT_TRUE(
      Calibrate(net, Reference(), samples, {.observer = FindObserver("percentile")}, &notes));
  EXPECT_EQ(passes, 4);
  EXPECT_EQ(notes.samples, 2);
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
  EXPECT_FALSE(fails({.percentile = 0.5}));
  EXPECT_FALSE(fails({.percentile = 100}));
  EXPECT_TRUE(fails({.percentile = 100.0001}));
  EXPECT_TRUE(fails({.percentile = NAN}));
  const auto error = [&](const CalibrationOptions& options) {
    return Calibrate(net, Reference(), RandomSamples(net, 2), options).error().message();
  };
  EXPECT_EQ(error({.bins = 255}), "calibration: 255 bins, expected 256 to 1048576");
  EXPECT_EQ(error({.percentile = -1}),
            "calibration: percentile -1, expected more than 0 and at most 100");
}

}  // namespace
}  // namespace evoq
