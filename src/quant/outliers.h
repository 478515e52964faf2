// Outliers: the few elements or channels whose size sets the range, and so the step, of all others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quant/method.h"

namespace evoq {

// A channel is an outlier whose largest magnitude is more than so many times the median of those of
// all channels: of eight bits that hold both, half of the channels use five at most.
inline constexpr double kOutlierChannel = 8;

// Magnitudes, moments and channels of a tensor's elements, over any number of samples. Sums are
// taken in the order of the samples. NaN and infinities are left out.
class OutlierStatistics {
 public:
  // Adds the value's elements (float32). Axis `axis` numbers the channels; negative: it has none.
  // Every value has as many channels as the first, else channels are no longer looked at.
  void Add(const Tensor& value, int axis);

  int64_t elements() const { return count_; }
  double largest() const { return largest_; }  // magnitude
  // The least magnitude that 99.9% of all elements do not exceed; at most 1/64 too large.
  double p999() const;
  // largest / p999: 1 without outliers; 1 too where all elements are 0.
  double tail() const;
  // Fourth central moment over the squared second: 3 of a normal distribution, 1.8 of a uniform
  // one; 0 of a constant.
  double kurtosis() const;
  int64_t channels() const { return static_cast<int64_t>(channel_largest_.size()); }
  std::vector<int64_t> OutlierChannels() const;  // kOutlierChannel

 private:
  float AddRow(std::span<const float> row);  // its largest magnitude

  std::vector<int64_t> magnitudes_;  // counts by the leading bits of the magnitude
  std::vector<float> channel_largest_;
  bool has_channels_ = true;
  int64_t count_ = 0;
  float shift_ = 0, largest_ = 0;  // moments are about the first element
  double sums_[4] = {};            // of the powers 1 to 4
};

struct TensorOutliers {
  std::string name;
  bool weight = false;              // a constant
  std::vector<std::string> layers;  // that read it
  OutlierStatistics statistics;
};

// Of what these nodes of a float32 graph read, on all samples, and of their weights; each tensor
// once, in the order in which nodes read them. Channels of data are those that linear operators sum
// over, those of weights have a scale each. Errors: those of runs.
Result<std::vector<TensorOutliers>> FindOutliers(const Graph& graph,
                                                 const std::vector<NodeId>& layers,
                                                 const MethodData& data);

}  // namespace evoq
