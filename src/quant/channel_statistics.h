// Statistics of channels over all samples, in sums that do not depend on the order of samples.
#pragma once

#include <vector>

#include "base/exact_sum.h"
#include "tensor/tensor.h"

namespace evoq {

class ChannelStatistics {
 public:
  // Adds the value's elements; axis `axis` numbers the channels, counted from the end where it is
  // negative. Every value has as many channels as the first.
  void Add(const Tensor& value, int axis);

  size_t channels() const { return sums_.size(); }
  int64_t count() const { return count_; }  // elements of each channel
  double Mean(size_t channel) const;
  double MeanSquare(size_t channel) const;
  double Deviation(size_t channel) const;                            // sqrt(mean square - mean^2)
  float Largest(size_t channel) const { return largest_[channel]; }  // magnitude

 private:
  std::vector<ExactSum> sums_, squares_;
  std::vector<float> largest_;
  int64_t count_ = 0;
};

}  // namespace evoq
