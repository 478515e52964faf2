#include "quant/outliers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "quant/channels.h"
#include "quant/observe.h"
#include "quant/plan.h"

namespace evoq {
namespace {

constexpr int kDropped = 17;  // of float32's bits: the exponent and 6 of the mantissa stay
constexpr size_t kBins = size_t{1} << (31 - kDropped);

}  // namespace

void OutlierStatistics::Add(const Tensor& value, int axis) {
  const std::vector<int64_t> sizes = value.sizes();
  if (axis < 0 || static_cast<size_t>(axis) >= sizes.size()) has_channels_ = false;
  size_t inner = static_cast<size_t>(value.elements());  // neighbours of one channel
  if (has_channels_) {
    const auto at = static_cast<size_t>(axis);
    inner = 1;
    for (size_t i = at + 1; i < sizes.size(); ++i) inner *= static_cast<size_t>(sizes[i]);
    if (channel_largest_.empty()) channel_largest_.resize(static_cast<size_t>(sizes[at]));
    has_channels_ = channel_largest_.size() == static_cast<size_t>(sizes[at]);
  }
  if (!has_channels_) channel_largest_.clear();
  if (value.elements() == 0) return;
  magnitudes_.resize(kBins);
  const std::span<const float> all = value.values<float>();
  if (count_ == 0 && std::isfinite(all[0])) shift_ = all[0];
  for (size_t row = 0; row * inner < all.size(); ++row) {
    const float most = AddRow(all.subspan(row * inner, inner));
    largest_ = std::max(largest_, most);
    if (!has_channels_) continue;
    float& channel = channel_largest_[row % channel_largest_.size()];
    channel = std::max(channel, most);
  }
}

float OutlierStatistics::AddRow(std::span<const float> row) {
  float most = 0;
  for (const float x : row) {
    if (!std::isfinite(x)) continue;
    const float magnitude = std::fabs(x);
    ++magnitudes_[std::bit_cast<uint32_t>(magnitude) >> kDropped];
    ++count_;
    most = std::max(most, magnitude);
    const double d = static_cast<double>(x) - shift_, square = d * d;
    sums_[0] += d;
    sums_[1] += square;
    sums_[2] += square * d;
    sums_[3] += square * square;
  }
  return most;
}

double OutlierStatistics::p999() const {
  const int64_t wanted = count_ - count_ / 1000;
  int64_t below = 0;
  for (size_t bin = 0; bin < magnitudes_.size(); ++bin) {
    below += magnitudes_[bin];
    if (below < wanted) continue;
    if (bin == 0) return 0;
    const float end = std::bit_cast<float>(static_cast<uint32_t>(bin + 1) << kDropped);
    return std::min(end, largest_);
  }
  return 0;
}

double OutlierStatistics::tail() const {
  const double most = p999();
  if (most > 0) return largest_ / most;
  return largest_ > 0 ? INFINITY : 1;
}

double OutlierStatistics::kurtosis() const {
  if (count_ == 0) return 0;
  double m[4];
  for (int i = 0; i < 4; ++i) m[i] = sums_[i] / static_cast<double>(count_);
  const double variance = m[1] - m[0] * m[0];
  if (!(variance > 1e-12 * m[1])) return 0;
  const double fourth = m[3] - 4 * m[0] * m[2] + 6 * m[0] * m[0] * m[1] - 3 * std::pow(m[0], 4);
  return fourth / (variance * variance);
}

std::vector<int64_t> OutlierStatistics::OutlierChannels() const {
  std::vector<int64_t> outliers;
  if (channel_largest_.empty()) return outliers;
  std::vector<float> sorted = channel_largest_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  for (size_t c = 0; c < channel_largest_.size(); ++c) {
    if (*middle > 0 && channel_largest_[c] > kOutlierChannel * *middle)
      outliers.push_back(static_cast<int64_t>(c));
  }
  return outliers;
}

Result<std::vector<TensorOutliers>> FindOutliers(const Graph& graph,
                                                 const std::vector<NodeId>& layers,
                                                 const MethodData& data) {
  std::vector<TensorOutliers> tensors;
  std::map<ValueId, size_t> index;
  std::vector<std::string> observed;
  std::vector<std::pair<size_t, int>> places;  // of each observed value: its tensor, its channels
  for (const NodeId id : layers) {
    const Node& node = graph.node(id);
    const auto weight = WeightPlaceOf(graph, node);
    std::vector<size_t> inputs = RealInputs(graph, node);
    if (weight) inputs.push_back(weight->input);
    for (const size_t i : inputs) {
      const ValueId v = node.input(i);
      const Value& value = graph.value(v);
      const auto [at, fresh] = index.emplace(v, tensors.size());
      if (!fresh) {
        std::vector<std::string>& readers = tensors[at->second].layers;
        if (readers.back() != node.name) readers.push_back(node.name);
        continue;
      }
      TensorOutliers& tensor = tensors.emplace_back();
      tensor.name = value.name;
      tensor.weight = value.is_constant();
      tensor.layers = {node.name};
      if (value.is_constant()) {
        EVOQ_ASSIGN(const Tensor real, WithContext(ToFloat32(value.constant), value.name));
        tensor.statistics.Add(real, weight ? weight->axis : -1);
      } else {
        observed.push_back(value.name);
        places.emplace_back(at->second, ChannelAxis(graph, v));
      }
    }
  }
  if (observed.empty()) return tensors;
  EVOQ_TRY(ObserveValues(graph, observed, data, [&](size_t which, const Tensor& value) -> Status {
    EVOQ_ASSIGN(const Tensor real, ToFloat32(value));
    tensors[places[which].first].statistics.Add(real, places[which].second);
    return {};
  }));
  return tensors;
}

}  // namespace evoq
