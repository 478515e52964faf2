#include "quant/calibrator.h"

#include <algorithm>

#include "ops/op.h"
#include "passes/match.h"
#include "quant/channels.h"
#include "quant/plan.h"
#include "quant/suspect.h"
#include "quant/turn_product.h"
#include "quant/unfuse.h"
#include "reference/reference.h"

namespace evoq {

int ChannelAxis(const Graph& graph, ValueId v) {
  for (NodeId user : graph.value(v).users) {
    const Node& node = graph.node(user);
    if (!IsLinear(node) || node.input(0) != v || !graph.value(v).type.shape.ranked()) continue;
    return ChannelAxis(node, graph.value(v).type.shape.rank());
  }
  return -1;
}

namespace {

bool IsRealActivation(const Value& value) {
  return !value.is_constant() && value.type.dtype == DType::kFloat32;
}

// The values that QuantizeStatic may ask for: those that operators with a meaning on integers read
// or write.
std::vector<ValueId> ValuesToWatch(const Graph& graph) {
  std::vector<ValueId> values;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef* op = FindOp(node);
    if (op == nullptr || op->quant == QuantTrait::kFloat) continue;
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (ValueId v : *list) {
        if (v.valid() && IsRealActivation(graph.value(v))) values.push_back(v);
      }
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

bool HoldsNan(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

// The values whose channels lie last in memory once the graph is compiled: of the operators that
// have such a form, and what is element by element between them.
std::vector<bool> ChannelsLastValues(const Graph& graph) {
  std::vector<bool> last(static_cast<size_t>(graph.value_count()));
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef* op = FindOp(node);
    if (op == nullptr || node.outputs.empty() || !node.outputs[0].valid()) continue;
    bool is = op->spatial;
    for (ValueId in : node.inputs) is |= op->elementwise && in.valid() && last[in.index];
    last[node.outputs[0].index] = is;
  }
  return last;
}

}  // namespace

Status CheckOptions(const CalibrationOptions& options) {
  if (options.bins < 256 || options.bins > (1 << 20)) {
    return Fail(ErrorCode::kUsage, "calibration: {} bins, expected 256 to {}", options.bins,
                1 << 20);
  }
  if (!(options.percentile > 0 && options.percentile <= 100)) {
    return Fail(ErrorCode::kUsage,
                "calibration: percentile {}, expected more than 0 and at most 100",
                options.percentile);
  }
  return {};
}

Result<Graph> Calibrator::Instrument(const Graph& source) {
  Graph graph = source;
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    if (HasResidual(graph.node(id))) SplitResidual(graph, id);
    if (IsPlainAttention(graph, graph.node(id))) SplitAttention(graph, id);
    if (IsTurnable(graph, graph.node(id), kWorkOfBytes)) TurnProduct(graph, id);
  }
  EVOQ_TRY(graph.Sort());
  const std::vector<NodeId> parts = graph.order();
  for (NodeId id : parts) {
    if (HasForeignActivation(graph.node(id))) SplitActivation(graph, id);
  }
  EVOQ_TRY(graph.Sort());
  EVOQ_TRY(InferTypes(graph));
  const std::vector<bool> last = ChannelsLastValues(graph);
  for (const ValueId value : ValuesToWatch(graph)) {
    const Shape shape = graph.value(value).type.shape;
    int channel_axis = ChannelAxis(graph, value);
    Watched watched{.name = graph.value(value).name};
    ValueId v = value;
    // In the order in which it lies in memory: no order changes what is counted.
    if (last[v.index] && shape.ranked() && shape.rank() > 2 && !graph.IsOutput(v) &&
        !graph.IsInput(v)) {
      v = graph.Apply("Transpose", watched.name + "_watched", {v},
                      Attrs::Of("perm", ChannelsLast(shape.rank())));
      if (channel_axis > 0) channel_axis = channel_axis == 1 ? shape.rank() - 1 : channel_axis - 1;
    }
    watched.seen = ValueStatistics(channel_axis, intervals());
    const auto& inputs = graph.inputs();
    if (graph.IsInput(v)) {
      watched.input = static_cast<int>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
    } else {
      if (!graph.IsOutput(v)) graph.MarkOutput(v);
      const auto& outputs = graph.outputs();
      watched.output =
          static_cast<int>(std::find(outputs.begin(), outputs.end(), v) - outputs.begin());
    }
    watched_.push_back(std::move(watched));
  }
  EVOQ_TRY(graph.Sort());
  EVOQ_TRY(InferTypes(graph));
  return graph;
}

// The observer's range, with its interval from what `without` says of all but a group.
template <typename Without>
Range Calibrator::Chosen(const Observed& all, const Without& without) const {
  Range range = def_.choose(all, options_);
  if (!intervals()) return range;
  std::vector<double> mins, maxs;
  for (int group = 0; group < kIntervalGroups; ++group) {
    if (std::find(groups_.begin(), groups_.end(), group) == groups_.end()) break;
    bool seen = false;
    const Observed rest = without(group, &seen);
    if (!seen) continue;
    const Range other = def_.choose(rest, options_);
    mins.push_back(other.min);
    maxs.push_back(other.max);
  }
  range.min_error = static_cast<float>(JackknifeError(mins));
  range.max_error = static_cast<float>(JackknifeError(maxs));
  return range;
}

bool Calibrator::IsEnough() {
  if (!options_.stop_when_enough || samples() < next_question_) return false;
  next_question_ = samples() + std::max<int64_t>(1, samples() / 4);
  known_ = {};
  for (const Watched& w : watched_) {
    if (!w.seen.seen()) continue;
    const auto without = [&](int group, bool* seen) {
      return w.seen.WithoutSoFar(def_.histogram, group, groups_, seen);
    };
    known_.Add(Chosen(w.seen.AllSoFar(def_.histogram), without));
  }
  return enough_ = known_.enough();
}

Status Calibrator::ObserveRange(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const auto first = static_cast<int>(samples());
  for (int64_t i = 0; i < options_.batch; ++i) {
    hashes_.push_back(SampleHash(inputs, i, options_.batch));
    // Stopping asks for the groups before all samples are known.
    if (options_.stop_when_enough)
      groups_.push_back(static_cast<int>((first + i) % kIntervalGroups));
  }
  const std::span<const int> groups =
      NeedsHistograms()
          ? std::span<const int>(groups_).subspan(std::min<size_t>(first, groups_.size()))
          : std::span<const int>();
  for (Watched& w : watched_) {
    const Tensor& tensor = w.input >= 0 ? inputs[w.input] : outputs[w.output];
    if (w.infinite || w.seen.Add(tensor, options_.batch, groups)) continue;
    if (!infinities_ || w.input >= 0 || HoldsNan(tensor))
      return InvalidInput("calibration: value {} holds a NaN or an infinity in sample {}", w.name,
                          first / options_.batch);
    w.infinite = true;
    w.seen = ValueStatistics(-1, false);
  }
  return {};
}

void Calibrator::StartHistograms() {
  if (intervals() && groups_.empty()) groups_ = GroupsByContent(hashes_);
  for (Watched& w : watched_) {
    if (!w.infinite)
      w.seen.StartHistograms(def_.histogram, options_.bins, intervals() ? kIntervalGroups : 1);
  }
}

std::vector<std::string> Calibrator::InfiniteValues() const {
  std::vector<std::string> names;
  for (const Watched& w : watched_) {
    if (w.infinite) names.push_back(w.name);
  }
  return names;
}

void Calibrator::CountBins(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                           int64_t first) {
  const std::span<const int> groups =
      intervals() ? std::span<const int>(groups_).subspan(first) : std::span<const int>();
  for (Watched& w : watched_) {
    if (w.infinite) continue;
    w.seen.Count(w.input >= 0 ? inputs[w.input] : outputs[w.output], options_.batch, groups);
  }
}

Ranges Calibrator::Choose() {
  if (intervals() && groups_.empty()) groups_ = GroupsByContent(hashes_);
  Ranges ranges;
  Known known;
  for (const Watched& w : watched_) {
    if (!w.seen.seen()) continue;
    const auto without = [&](int group, bool* seen) {
      return w.seen.Without(group, groups_, seen);
    };
    Range& range = ranges[w.name] = Chosen(w.seen.All(), without);
    known.Add(range);
    w.seen.PutChannels(range);
  }
  if (!enough_) known_ = known;
  return ranges;
}

std::vector<std::pair<std::string, LoneSample>> Calibrator::LoneSamples() const {
  std::vector<std::pair<std::string, LoneSample>> lone;
  for (const Watched& w : watched_) lone.emplace_back(w.name, w.seen.lone());
  return lone;
}

std::map<std::string, ValueRecord> Calibrator::Records() const {
  std::map<std::string, ValueRecord> records;
  for (const Watched& w : watched_) records[w.name] = w.seen.record();
  return records;
}

void Calibrator::Resume(std::map<std::string, ValueRecord> records, std::vector<uint64_t> hashes) {
  hashes_ = std::move(hashes);
  for (auto& [name, record] : records) {
    ValueStatistics seen(std::move(record), def_.histogram, options_.bins);
    const auto at = std::ranges::find(watched_, name, &Watched::name);
    if (at == watched_.end()) {
      watched_.push_back({.name = name, .seen = std::move(seen)});
    } else {
      at->seen = std::move(seen);
    }
  }
}

}  // namespace evoq
