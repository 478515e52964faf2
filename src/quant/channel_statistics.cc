#include "quant/channel_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace evoq {

void ChannelStatistics::Add(const Tensor& value, int axis) {
  const std::vector<int64_t> sizes = value.sizes();
  const size_t at = axis < 0 ? sizes.size() + axis : static_cast<size_t>(axis);
  const auto channels = static_cast<size_t>(sizes[at]);
  if (sums_.empty()) {
    sums_.resize(channels);
    squares_.resize(channels);
    largest_.resize(channels);
  }
  EVOQ_CHECK(sums_.size() == channels);
  if (value.elements() == 0) return;
  int64_t inner = 1;
  for (size_t i = at + 1; i < sizes.size(); ++i) inner *= sizes[i];
  const int64_t rows = value.elements() / inner;
  std::vector<double> sums(channels), squares(channels);
  const float* x = value.data<float>();
  for (int64_t row = 0; row < rows; ++row, x += inner) {
    const size_t c = static_cast<size_t>(row) % channels;
    for (int64_t i = 0; i < inner; ++i) {
      sums[c] += x[i];
      squares[c] += static_cast<double>(x[i]) * x[i];
      largest_[c] = std::max(largest_[c], std::fabs(x[i]));
    }
  }
  for (size_t c = 0; c < channels; ++c) {
    sums_[c].Add(sums[c]);
    squares_[c].Add(squares[c]);
  }
  count_ += value.elements() / static_cast<int64_t>(channels);
}

double ChannelStatistics::Mean(size_t channel) const {
  return count_ == 0 ? 0 : sums_[channel].Rounded() / static_cast<double>(count_);
}

double ChannelStatistics::MeanSquare(size_t channel) const {
  return count_ == 0 ? 0 : squares_[channel].Rounded() / static_cast<double>(count_);
}

double ChannelStatistics::Deviation(size_t channel) const {
  const double mean = Mean(channel);
  return std::sqrt(std::max(0.0, MeanSquare(channel) - mean * mean));
}

}  // namespace evoq
