#include "quant/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "quant/interval.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// Counts by the width that the largest magnitude asks for, worked out at once.
std::vector<int64_t> CountsOf(std::vector<float> x, double width) {
  std::vector<int64_t> counts(GrowingHistogram::kBins, 0);
  for (float v : x) ++counts[static_cast<int>(std::floor(v / width)) + GrowingHistogram::kBins / 2];
  return counts;
}

// Elements that grow by 40 orders of magnitude, each part added before the larger ones: as if the
// last width had been known.
TEST(GrowingHistogram, IsThatOfTheLastWidth) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  for (const int factor : {1, 3, 40}) {
    std::vector<float> all;
    GrowingHistogram grown, parts[2];
    for (int i = 0; i < 40; ++i) {
      std::vector<float> part;
      for (int k = 0; k < 50; ++k)
        part.push_back(normal(random) * static_cast<float>(std::ldexp(1, i % factor)));
      grown.Add(part);
      parts[i % 2].Add(part);
      all.insert(all.end(), part.begin(), part.end());
    }
    parts[0].Add(parts[1]);
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    const double width =
        std::ldexp(1, std::ilogb(std::max(-*low, *high)) + 1) / (GrowingHistogram::kBins / 2);
    const std::vector<int64_t> whole = CountsOf(all, width);
    for (const GrowingHistogram* h : {&grown, &parts[0]}) {
      const Histogram got = h->As(HistogramKind::kSigned, {*low, *high});
      EXPECT_NEAR(got.width(), width, width * 1e-12);
      EXPECT_LE(got.low, *low);
      EXPECT_GT(got.high, *high);
      EXPECT_EQ(got.total(), 2000);
      const auto first = static_cast<size_t>(std::llround(got.low / width) + 512);
      EXPECT_TRUE(std::equal(got.counts.begin(), got.counts.end(), whole.begin() + first));
      const Histogram sizes = h->As(HistogramKind::kMagnitude, {*low, *high});
      EXPECT_EQ(sizes.low, 0);
      EXPECT_EQ(sizes.total(), 2000);
      EXPECT_EQ(sizes.counts[3], whole[512 + 3] + whole[511 - 3]);
    }
  }
}

TEST(GrowingHistogram, ZerosAndNothing) {
  GrowingHistogram h;
  EXPECT_TRUE(h.As(HistogramKind::kSigned, {0, 1}).counts.empty());
  h.Add(std::vector<float>{0, 0});
  h.Add(std::vector<float>());
  EXPECT_TRUE(h.As(HistogramKind::kSigned, {0, 0}).counts.empty());
  h.Add(std::vector<float>{3e38f, -3e38f, 1e-44f});
  EXPECT_EQ(h.As(HistogramKind::kSigned, {-3e38f, 3e38f}).total(), 5);
}

// 8 figures without a group each: sd by hand. 1..8: mean 4.5, squares 42; 7/8 * 42 = 36.75.
TEST(Jackknife, ByHand) {
  EXPECT_NEAR(JackknifeError(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}), 2.365 * std::sqrt(36.75),
              1e-9);
  EXPECT_NEAR(JackknifeError(std::vector<double>{1, 3}), 12.706 * 1, 1e-9);
  EXPECT_EQ(JackknifeError(std::vector<double>{4, 4, 4}), 0);
  EXPECT_LT(JackknifeError(std::vector<double>{4}), 0);
}

// The interval of a mean of samples' maxima holds the true mean in about 95 of 100 repetitions.
TEST(Jackknife, HoldsAsOftenAsItSays) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(5, 2);
  int held = 0;
  constexpr int kTrials = 2000, kSamples = 40;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> x(kSamples), without;
    double sum = 0;
    for (double& v : x) sum += v = normal(random);
    for (int group = 0; group < kIntervalGroups; ++group) {
      double rest = 0;
      for (int i = 0; i < kSamples; ++i) rest += i % kIntervalGroups == group ? 0 : x[i];
      without.push_back(rest / (kSamples - kSamples / kIntervalGroups));
    }
    held += std::fabs(sum / kSamples - 5) <= JackknifeError(without);
  }
  EXPECT_GT(held, kTrials * 0.93);
  EXPECT_LT(held, kTrials * 0.97);
}

TEST(Groups, DoNotDependOnOrder) {
  std::vector<uint64_t> hashes(37);
  std::mt19937_64 random(2);
  for (uint64_t& h : hashes) h = random();
  const std::vector<int> groups = GroupsByContent(hashes);
  std::map<uint64_t, int> wanted;
  std::vector<int> sizes(kIntervalGroups, 0);
  for (size_t i = 0; i < hashes.size(); ++i) {
    wanted[hashes[i]] = groups[i];
    ++sizes[groups[i]];
  }
  EXPECT_EQ(*std::min_element(sizes.begin(), sizes.end()), 4);
  EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), 5);
  std::shuffle(hashes.begin(), hashes.end(), random);
  const std::vector<int> again = GroupsByContent(hashes);
  for (size_t i = 0; i < hashes.size(); ++i) EXPECT_EQ(again[i], wanted[hashes[i]]);
}

// ---- through Calibrate

SamplesFn Given(const std::vector<Tensor>& samples) {
  return [samples](const std::function<Status(std::span<const Tensor>)>& body) -> Status {
    for (const Tensor& sample : samples) EVOQ_TRY(body(std::span(&sample, 1)));
    return {};
  };
}

std::vector<Tensor> Images(int count, int batch, const std::vector<int>& order) {
  std::vector<Tensor> samples;
  for (int first = 0; first < count; first += batch) {
    Tensor t = Tensor::Allocate({DType::kFloat32, Shape{batch, 3, 12, 12}});
    const int64_t size = t.elements() / batch;
    for (int i = 0; i < batch; ++i) {
      std::mt19937 random(order[first + i] + 50);
      std::normal_distribution<float> normal(0.3f, 1);
      for (int64_t k = 0; k < size; ++k) t.mutable_data<float>()[i * size + k] = normal(random);
    }
    samples.push_back(std::move(t));
  }
  return samples;
}

std::string NetOfBatch(int batch) {
  std::string text = kConvNet;
  for (const char* from : {"[1, 3,", "[1, 8,", "[1, 16", "[1, 10"}) {
    const std::string to = fmt::format("[{},{}", batch, from + 3);
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, 6, to);
  }
  return text;
}

// Ranges, intervals and channels are bit for bit those of another order and of larger batches.
TEST(Calibrate, OrderAndBatchDoNotMatter) {
  std::vector<int> order(16);
  for (int i = 0; i < 16; ++i) order[i] = i;
  for (const ObserverDef* def : AllObservers()) {
    if (def == FindObserver("moving-average")) continue;
    std::optional<Ranges> first;
    for (const int batch : {1, 16, 1}) {
      const Graph net = MakeNet(NetOfBatch(batch));
      const CalibrationOptions options = {.observer = def, .batch = batch, .intervals = true};
      CalibrationNotes notes;
      const auto ranges =
          Calibrate(net, Reference(), Given(Images(16, batch, order)), options, &notes);
      ASSERT_TRUE(ranges) << ranges.error().message();
      EXPECT_EQ(notes.samples, 16);
      if (!first) first = *ranges;
      ASSERT_EQ(ranges->size(), first->size());
      for (const auto& [name, range] : *ranges) {
        const Range& wanted = first->at(name);
        EXPECT_EQ(range.min, wanted.min) << def->name << " " << name << " " << batch;
        EXPECT_EQ(range.max, wanted.max) << def->name << " " << name << " " << batch;
        EXPECT_EQ(range.min_error, wanted.min_error) << def->name << " " << name << " " << batch;
        EXPECT_EQ(range.max_error, wanted.max_error) << def->name << " " << name << " " << batch;
        EXPECT_GE(range.max_error, 0) << name;
        EXPECT_EQ(range.channel_means, wanted.channel_means) << name << " " << batch;
        EXPECT_EQ(range.channel_max, wanted.channel_max) << name << " " << batch;
      }
      std::mt19937 random(batch);
      std::shuffle(order.begin(), order.end(), random);
    }
  }
}

// Samples that are much alike are soon known; with ever larger ones no number is enough.
TEST(Calibrate, StopsWhenEnough) {
  const Graph net = MakeNet(kConvNet);
  const std::vector<int> order(200, 0);
  for (const ObserverDef* def : AllObservers()) {
    const CalibrationOptions options = {.observer = def, .stop_when_enough = true};
    CalibrationNotes notes;
    std::vector<Tensor> samples = Images(200, 1, order);
    std::mt19937 random(4);
    std::normal_distribution<float> normal(0, 0.1f);
    for (Tensor& t : samples) {
      for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] += normal(random);
    }
    auto ranges = Calibrate(net, Reference(), Given(samples), options, &notes);
    ASSERT_TRUE(ranges) << ranges.error().message();
    EXPECT_LT(notes.samples, 150) << def->name;
    EXPECT_GE(notes.samples, kFewestSamples) << def->name;
    EXPECT_NE(
        notes.enough.find(fmt::format("{} samples were enough: the ranges of ", notes.samples)),
        std::string::npos)
        << notes.enough;
    // The same as of those samples alone.
    samples.resize(notes.samples);
    const auto alone = Calibrate(net, Reference(), Given(samples), {.observer = def});
    for (const auto& [name, range] : *ranges) {
      EXPECT_EQ(range.min, alone->at(name).min) << def->name << " " << name;
      EXPECT_EQ(range.max, alone->at(name).max) << def->name << " " << name;
    }
  }
  std::vector<Tensor> growing = Images(40, 1, order);
  float scale = 1;
  for (Tensor& t : growing) {
    for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] *= scale;
    scale *= 1.2f;
  }
  CalibrationNotes notes;
  ASSERT_TRUE(Calibrate(net, Reference(), Given(growing), {.stop_when_enough = true}, &notes));
  EXPECT_EQ(notes.samples, 40);
  EXPECT_NE(notes.enough.find("all 40 samples were used, and more would help"), std::string::npos)
      << notes.enough;
}

}  // namespace
}  // namespace evoq
