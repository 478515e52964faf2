// What calibration keeps of one value: extremes, histograms and channels, whole and without a part
// of the samples. All of it adds up exactly: order, batches and threads do not change a bit.
#pragma once

#include <span>
#include <vector>

#include "base/exact_sum.h"
#include "quant/observer.h"

namespace evoq {

// Counts in bins whose width doubles when an element lies outside: the counts are those that the
// last width would have given from the start, in whatever order the elements came. Bins are
// [k w, (k + 1) w) for -bins / 2 <= k < bins / 2, w a power of two.
class GrowingHistogram {
 public:
  static constexpr int kBins = 1024;

  void Add(std::span<const float> values);
  void Add(const GrowingHistogram& other);
  // As an observer asks for it, of elements between the range's ends; empty where it has no width.
  Histogram As(HistogramKind kind, Range range) const;

 private:
  void Widen(int exponent);

  static constexpr int kSmallest = -140;  // below what float32 tells from 0 in a range of its own
  int exponent_ = kSmallest;              // w = 2^exponent_
  std::vector<int64_t> counts_;           // empty: nothing was added
};

// All that ValueStatistics with `by_sample` knows, as numbers that may leave the process.
struct ValueRecord {
  std::vector<Range> samples;  // extremes of each; of one without elements min > max
  // Of channels; empty also where their number differs between samples.
  bool channels_differ = false;
  std::vector<ExactSum> channel_sums;
  std::vector<float> channel_max;
  int64_t channel_count = 0;                 // elements of one channel
  std::vector<std::vector<int64_t>> counts;  // of the second pass's histograms, by group

  // Adds the first pass over the samples that follow on those of this one.
  void Append(const ValueRecord& next);
  // Adds the second pass over others of the same samples, counted in the same bins.
  void AddCounts(const ValueRecord& other);
};

// How far the one sample that reaches furthest stands out.
struct LoneSample {
  int64_t sample = -1;            // its number, from 0; -1: none was seen
  float largest = 0, others = 0;  // its largest magnitude, and that of all other samples
};

class ValueStatistics {
 public:
  // `channel_axis`: of the means, -1: none. `by_sample`: keeps what Without asks for.
  ValueStatistics(int channel_axis, bool by_sample)
      : channel_axis_(channel_axis), by_sample_(by_sample) {}
  // What the record tells, of whoever counts on: the same as if this had seen its samples.
  ValueStatistics(ValueRecord record, HistogramKind kind, int bins);
  ValueRecord record() const;  // with `by_sample` only

  // First pass. One run's value, `batch` samples one behind the other; false for a NaN or an
  // infinity. `groups`: of each of its samples, for growing histograms; empty: none are kept.
  bool Add(const Tensor& value, int64_t batch, std::span<const int> groups = {});
  // Second pass: counts in equal bins of what the first one saw.
  void StartHistograms(HistogramKind kind, int bins, int groups);
  void Count(const Tensor& value, int64_t batch, std::span<const int> groups);

  bool seen() const { return all_.count > 0; }
  const LoneSample& lone() const { return all_.lone; }
  // What all samples showed; what those outside one group showed, `group_of` being the group of
  // each sample. Without's `seen` is whether there were any.
  Observed All() const;
  Observed Without(int group, std::span<const int> group_of, bool* seen) const;
  // The same by the growing histograms of the first pass.
  Observed AllSoFar(HistogramKind kind) const;
  Observed WithoutSoFar(HistogramKind kind, int group, std::span<const int> group_of,
                        bool* seen) const;
  // The means and largest magnitudes of channels.
  void PutChannels(Range& range) const;

 private:
  struct Extremes {
    Range range, average;
    ExactSum min_sum, max_sum;
    int64_t count = 0;
    int64_t samples = 0;  // also those without elements
    LoneSample lone;
    void Add(Range sample);
    Observed observed() const;
  };
  Extremes ExtremesWithout(int group, std::span<const int> group_of) const;
  void AddChannels(const Tensor& value);

  int channel_axis_;
  bool by_sample_;
  bool channels_differ_ = false;
  Extremes all_;
  std::vector<Range> samples_;             // extremes of each; of one without elements min > max
  std::vector<GrowingHistogram> growing_;  // by group
  HistogramKind kind_ = HistogramKind::kNone;
  std::vector<Histogram> histograms_;  // by group
  std::vector<ExactSum> channel_sums_;
  std::vector<float> channel_max_;
  int64_t channel_count_ = 0;  // elements of one channel, over all samples
};

}  // namespace evoq
