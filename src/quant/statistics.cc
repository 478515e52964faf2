#include "quant/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace evoq {
namespace {

// The part of a value that belongs to one of the samples of a run.
std::span<const float> PartOf(const Tensor& value, int64_t batch, int64_t sample) {
  const int64_t size = value.elements() / batch;
  return {value.data<float>() + sample * size, static_cast<size_t>(size)};
}

int64_t BatchOf(const Tensor& value, int64_t batch) {
  return batch > 1 && value.elements() % batch == 0 ? batch : 1;
}

constexpr Range kNothing = {INFINITY, -INFINITY};

// The extremes, of which a zero has no sign; NaN in both for a part that holds a NaN or an
// infinity.
Range ExtremesOf(std::span<const float> x) {
  constexpr size_t kLanes = 16;  // independent of each other, so that they are vectors
  float low[kLanes], high[kLanes], poison[kLanes] = {};
  std::fill_n(low, kLanes, INFINITY);
  std::fill_n(high, kLanes, -INFINITY);
  const auto see = [&](size_t lane, float v) {
    low[lane] = v < low[lane] ? v : low[lane];
    high[lane] = v > high[lane] ? v : high[lane];
    poison[lane] += v * 0.0f;  // NaN as soon as one element is not finite
  };
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) see(lane, x[i + lane]);
  }
  for (; i < x.size(); ++i) see(i % kLanes, x[i]);
  float poisoned = 0;
  for (float p : poison) poisoned += p;
  if (poisoned != 0 || std::isnan(poisoned)) return {NAN, NAN};
  return {*std::min_element(low, low + kLanes) + 0.0f,
          *std::max_element(high, high + kLanes) + 0.0f};
}

// place(bin) for all x, bin = clamp(int((x - low) * scale), 0, last).
template <typename Place>
void ForBins(std::span<const float> x, bool magnitude, double low, double scale, double last,
             const Place& place) {
  constexpr size_t kBlock = 256;
  int32_t at[kBlock];
  for (size_t i = 0; i < x.size(); i += kBlock) {
    const size_t n = std::min(kBlock, x.size() - i);
    for (size_t k = 0; k < n; ++k) {
      const double v = magnitude ? std::fabs(x[i + k]) : x[i + k];
      double bin = (v - low) * scale;
      bin = bin > 0 ? bin : 0;
      at[k] = static_cast<int32_t>(bin < last ? bin : last);
    }
    for (size_t k = 0; k < n; ++k) place(k, static_cast<size_t>(at[k]));
  }
}

// counts[bin] += 1 for the bins of all x.
void CountInBins(std::span<const float> x, bool magnitude, double low, double scale,
                 std::vector<int64_t>& counts) {
  constexpr size_t kTables = 4;  // equal values follow each other: one table waits
  const size_t bins = counts.size();
  const double last = static_cast<double>(bins) - 1;
  // Tables are worth their sum, and no count of 32 bits gets full.
  constexpr size_t kMost = size_t{1} << 31;
  if (x.size() < kTables * bins)
    return ForBins(x, magnitude, low, scale, last, [&](size_t, size_t bin) { ++counts[bin]; });
  std::vector<uint32_t> tables(kTables * bins);
  for (size_t begin = 0; begin < x.size(); begin += kMost) {
    const std::span<const float> part = x.subspan(begin, std::min(kMost, x.size() - begin));
    ForBins(part, magnitude, low, scale, last,
            [&](size_t k, size_t bin) { ++tables[k % kTables * bins + bin]; });
    for (size_t table = 0; table < kTables; ++table) {
      for (size_t bin = 0; bin < bins; ++bin)
        counts[bin] += std::exchange(tables[table * bins + bin], 0);
    }
  }
}

}  // namespace

// ---- histograms

void GrowingHistogram::Widen(int exponent) {
  if (exponent <= exponent_) return;
  const int by = std::min(exponent - exponent_, 62);
  std::vector<int64_t> wider(counts_.size(), 0);
  for (int64_t i = 0; i < static_cast<int64_t>(counts_.size()); ++i)
    wider[((i - kBins / 2) >> by) + kBins / 2] += counts_[i];
  counts_ = std::move(wider);
  exponent_ = exponent;
}

void GrowingHistogram::Add(std::span<const float> values) {
  if (values.empty()) return;
  counts_.resize(kBins);
  const Range r = ExtremesOf(values);
  const float largest = std::max(std::fabs(r.min), std::fabs(r.max));
  if (largest > 0)
    Widen(std::max(kSmallest, std::ilogb(largest) + 1 - std::countr_zero<unsigned>(kBins / 2)));
  const double scale = std::ldexp(1.0, -exponent_);
  for (float v : values) ++counts_[static_cast<int64_t>(std::floor(v * scale)) + kBins / 2];
}

void GrowingHistogram::Add(const GrowingHistogram& other) {
  if (other.counts_.empty()) return;
  GrowingHistogram copy = other;
  counts_.resize(kBins);
  const int exponent = std::max(exponent_, copy.exponent_);
  Widen(exponent);
  copy.Widen(exponent);
  for (int i = 0; i < kBins; ++i) counts_[i] += copy.counts_[i];
}

Histogram GrowingHistogram::As(HistogramKind kind, Range range) const {
  if (counts_.empty() || kind == HistogramKind::kNone || range.min == range.max) return {};
  const double width = std::ldexp(1.0, exponent_);
  Histogram h;
  if (kind == HistogramKind::kMagnitude) {
    h.high = width * kBins / 2;
    h.counts.assign(kBins / 2, 0);
    for (int i = 0; i < kBins; ++i)
      h.counts[i < kBins / 2 ? kBins / 2 - 1 - i : i - kBins / 2] += counts_[i];
    return h;
  }
  const auto bin = [&](float x) { return static_cast<int>(std::floor(x / width)) + kBins / 2; };
  const int first = std::clamp(bin(range.min), 0, kBins - 1);
  const int last = std::clamp(bin(range.max), first, kBins - 1);
  h.low = (first - kBins / 2) * width;
  h.high = (last + 1 - kBins / 2) * width;
  h.counts.assign(counts_.begin() + first, counts_.begin() + last + 1);
  return h;
}

void ValueStatistics::StartHistograms(HistogramKind kind, int bins, int groups) {
  const Range r = all_.range;
  kind_ = kind;
  histograms_.clear();
  if (!seen() || r.min == r.max) return;
  Histogram h;
  h.low = kind == HistogramKind::kSigned ? r.min : 0;
  h.high = kind == HistogramKind::kSigned ? r.max : std::max(std::fabs(r.min), std::fabs(r.max));
  h.counts.assign(bins, 0);
  histograms_.assign(groups, h);
}

void ValueStatistics::Count(const Tensor& value, int64_t batch, std::span<const int> groups) {
  if (histograms_.empty()) return;
  batch = BatchOf(value, batch);
  for (int64_t sample = 0; sample < batch; ++sample) {
    Histogram& h = histograms_[groups.empty() ? 0 : groups[sample]];
    const double scale = static_cast<double>(h.counts.size()) / (h.high - h.low);
    CountInBins(PartOf(value, batch, sample), kind_ == HistogramKind::kMagnitude, h.low, scale,
                h.counts);
  }
}

// ---- extremes and channels

void ValueStatistics::Extremes::Add(Range sample) {
  const int64_t at = samples++;
  if (!(sample.min <= sample.max)) return;  // of no elements
  constexpr float kNew = 0.01f;
  const float magnitude = std::max(std::abs(sample.min), std::abs(sample.max));
  if (lone.sample < 0 || magnitude > lone.largest) {
    lone = {at, magnitude, lone.sample < 0 ? 0 : lone.largest};
  } else {
    lone.others = std::max(lone.others, magnitude);
  }
  if (count++ == 0) {
    range = average = sample;
  } else {
    range = {std::min(range.min, sample.min), std::max(range.max, sample.max)};
    average = {average.min + kNew * (sample.min - average.min),
               average.max + kNew * (sample.max - average.max)};
  }
  min_sum.Add(sample.min);
  max_sum.Add(sample.max);
}

Observed ValueStatistics::Extremes::observed() const {
  Observed o{.range = range, .average = average};
  if (count > 0)
    o.mean = {static_cast<float>(min_sum.Rounded() / static_cast<double>(count)),
              static_cast<float>(max_sum.Rounded() / static_cast<double>(count))};
  return o;
}

ValueStatistics::Extremes ValueStatistics::ExtremesWithout(int group,
                                                           std::span<const int> group_of) const {
  Extremes rest;
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (group_of[i] != group) rest.Add(samples_[i]);
  }
  return rest;
}

bool ValueStatistics::Add(const Tensor& value, int64_t batch, std::span<const int> groups) {
  const int64_t parts = BatchOf(value, batch);
  for (int64_t sample = 0; sample < parts; ++sample) {
    const std::span<const float> x = PartOf(value, parts, sample);
    const Range r = x.empty() ? kNothing : ExtremesOf(x);
    if (std::isnan(r.min)) return false;
    all_.Add(r);
    if (by_sample_) samples_.push_back(r);
    if (groups.empty()) continue;
    const auto group = static_cast<size_t>(groups[sample]);
    if (growing_.size() <= group) growing_.resize(group + 1);
    growing_[group].Add(x);
  }
  // A value that does not hold the batch's samples counts for the first of them.
  if (by_sample_) samples_.resize(samples_.size() + (batch - parts), kNothing);
  all_.samples += batch - parts;
  if (channel_axis_ >= 0 && value.elements() > 0) AddChannels(value);
  return true;
}

void ValueStatistics::AddChannels(const Tensor& value) {
  const std::vector<int64_t> sizes = value.sizes();
  const auto axis = static_cast<size_t>(channel_axis_);
  const int64_t channels = sizes[axis], outer = axis > 0 ? sizes[0] : 1;
  int64_t inner = 1;
  for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  // A size that differs between samples counts no channels (the operands of a product of two
  // activations).
  if (channel_count_ > 0 && static_cast<int64_t>(channel_sums_.size()) != channels) {
    channel_axis_ = -1;
    channels_differ_ = true;
    channel_sums_.clear();
    channel_max_.clear();
    channel_count_ = 0;
    return;
  }
  channel_sums_.resize(channels);
  channel_max_.resize(channels);
  const float* x = value.data<float>();
  const int64_t rows = value.elements() / outer / inner;
  std::vector<double> sums(channels);
  for (int64_t part = 0; part < outer;
       ++part) {  // each its own sum: a batch adds as its samples do
    std::fill(sums.begin(), sums.end(), 0.0);
    if (inner == 1) {
      for (int64_t row = 0; row < rows; row += channels, x += channels) {
        for (int64_t c = 0; c < channels; ++c) sums[c] += x[c];
        for (int64_t c = 0; c < channels; ++c) {
          const float size = std::fabs(x[c]);
          channel_max_[c] = channel_max_[c] < size ? size : channel_max_[c];
        }
      }
    }
    for (int64_t row = 0; inner != 1 && row < rows; ++row, x += inner) {
      double& sum = sums[row % channels];
      float& largest = channel_max_[row % channels];
      for (int64_t i = 0; i < inner; ++i) {
        sum += x[i];
        largest = std::max(largest, std::fabs(x[i]));
      }
    }
    for (int64_t c = 0; c < channels; ++c) channel_sums_[c].Add(sums[c]);
  }
  channel_count_ += value.elements() / channels;
}

void ValueStatistics::PutChannels(Range& range) const {
  range.channel_max = channel_max_;
  for (const ExactSum& sum : channel_sums_)
    range.channel_means.push_back(
        static_cast<float>(sum.Rounded() / static_cast<double>(channel_count_)));
}

// ---- records

void ValueRecord::AddCounts(const ValueRecord& other) {
  counts.resize(std::max(counts.size(), other.counts.size()));
  for (size_t group = 0; group < other.counts.size(); ++group) {
    counts[group].resize(other.counts[group].size());
    for (size_t i = 0; i < other.counts[group].size(); ++i)
      counts[group][i] += other.counts[group][i];
  }
}

void ValueRecord::Append(const ValueRecord& next) {
  samples.insert(samples.end(), next.samples.begin(), next.samples.end());
  channels_differ = channels_differ || next.channels_differ ||
                    (channel_count > 0 && next.channel_count > 0 &&
                     channel_sums.size() != next.channel_sums.size());
  if (channels_differ) {
    channel_sums.clear();
    channel_max.clear();
    channel_count = 0;
    return;
  }
  if (next.channel_count == 0) return;
  channel_sums.resize(next.channel_sums.size());
  channel_max.resize(next.channel_max.size());
  for (size_t c = 0; c < next.channel_sums.size(); ++c) {
    channel_sums[c].Add(next.channel_sums[c]);
    channel_max[c] = std::max(channel_max[c], next.channel_max[c]);
  }
  channel_count += next.channel_count;
}

ValueStatistics::ValueStatistics(ValueRecord record, HistogramKind kind, int bins)
    : channel_axis_(-1),
      by_sample_(true),
      channels_differ_(record.channels_differ),
      samples_(std::move(record.samples)) {
  for (const Range& sample : samples_) all_.Add(sample);
  channel_sums_ = std::move(record.channel_sums);
  channel_max_ = std::move(record.channel_max);
  channel_count_ = record.channel_count;
  if (record.counts.empty()) return;
  StartHistograms(kind, bins, static_cast<int>(record.counts.size()));
  for (size_t group = 0; group < histograms_.size(); ++group)
    histograms_[group].counts = std::move(record.counts[group]);
}

ValueRecord ValueStatistics::record() const {
  ValueRecord record{.samples = samples_,
                     .channels_differ = channels_differ_,
                     .channel_sums = channel_sums_,
                     .channel_max = channel_max_,
                     .channel_count = channel_count_};
  for (const Histogram& h : histograms_) record.counts.push_back(h.counts);
  return record;
}

// ---- what was observed

Observed ValueStatistics::All() const {
  Observed o = all_.observed();
  for (const Histogram& h : histograms_) {
    if (o.histogram.counts.empty()) {
      o.histogram = h;
    } else {
      for (size_t i = 0; i < h.counts.size(); ++i) o.histogram.counts[i] += h.counts[i];
    }
  }
  return o;
}

Observed ValueStatistics::Without(int group, std::span<const int> group_of, bool* seen) const {
  const Extremes rest = ExtremesWithout(group, group_of);
  *seen = rest.count > 0;
  Observed o = rest.observed();
  if (histograms_.empty() || o.range.min == o.range.max) return o;
  o.histogram = All().histogram;
  const Histogram& left_out = histograms_[group];
  for (size_t i = 0; i < left_out.counts.size(); ++i) o.histogram.counts[i] -= left_out.counts[i];
  return o;
}

Observed ValueStatistics::AllSoFar(HistogramKind kind) const {
  Observed o = all_.observed();
  GrowingHistogram sum;
  for (const GrowingHistogram& part : growing_) sum.Add(part);
  o.histogram = sum.As(kind, o.range);
  return o;
}

Observed ValueStatistics::WithoutSoFar(HistogramKind kind, int group, std::span<const int> group_of,
                                       bool* seen) const {
  const Extremes rest = ExtremesWithout(group, group_of);
  *seen = rest.count > 0;
  Observed o = rest.observed();
  GrowingHistogram sum;
  for (size_t g = 0; g < growing_.size(); ++g) {
    if (g != static_cast<size_t>(group)) sum.Add(growing_[g]);
  }
  o.histogram = sum.As(kind, o.range);
  return o;
}

}  // namespace evoq
