#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "quant/channels.h"
#include "quant/observer.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "quant/suspect.h"
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

struct Watched {
  std::string name;
  int input = -1;         // position among the graph's inputs,
  int output = -1;        // or among the outputs
  int channel_axis = -1;  // of the means, -1: none
  bool seen = false;
  Observed observed;
  std::vector<double> channel_sums;
  std::vector<float> channel_max;
  int64_t channel_count = 0;  // elements of one channel, over all samples
};

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

class Calibrator {
 public:
  Calibrator(const CalibrationOptions& options) : options_(options), def_(ObserverOf(options)) {}

  // A copy of the graph whose watched values are outputs.
  Result<Graph> Instrument(const Graph& source) {
    Graph graph = source;
    const std::vector<NodeId> nodes = graph.order();
    for (NodeId id : nodes) {
      if (HasResidual(graph.node(id))) SplitResidual(graph, id);
    }
    EVOQ_TRY(graph.Sort());
    const std::vector<NodeId> parts = graph.order();
    for (NodeId id : parts) {
      if (HasForeignActivation(graph.node(id))) SplitActivation(graph, id);
    }
    EVOQ_TRY(graph.Sort());
    EVOQ_TRY(InferTypes(graph));
    for (ValueId v : ValuesToWatch(graph)) {
      Watched watched;
      watched.name = graph.value(v).name;
      watched.channel_axis = ChannelAxis(graph, v);
      const auto& inputs = graph.inputs();
      if (graph.IsInput(v)) {
        watched.input =
            static_cast<int>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
      } else {
        if (!graph.IsOutput(v)) graph.MarkOutput(v);
        const auto& outputs = graph.outputs();
        watched.output =
            static_cast<int>(std::find(outputs.begin(), outputs.end(), v) - outputs.begin());
      }
      watched_.push_back(std::move(watched));
    }
    return graph;
  }

  bool NeedsHistograms() const { return def_.histogram != HistogramKind::kNone; }
  void StartHistograms() {
    for (Watched& w : watched_) {
      const Range r = w.observed.range;
      if (!w.seen || r.min == r.max) continue;
      Histogram& h = w.observed.histogram;
      h.low = def_.histogram == HistogramKind::kSigned ? r.min : 0;
      h.high = def_.histogram == HistogramKind::kSigned
                   ? r.max
                   : std::max(std::fabs(r.min), std::fabs(r.max));
      h.counts.assign(options_.bins, 0);
    }
  }

  Status ObserveRange(std::span<const Tensor> inputs, std::span<const Tensor> outputs, int sample) {
    for (Watched& w : watched_) {
      const Tensor& tensor = w.input >= 0 ? inputs[w.input] : outputs[w.output];
      if (tensor.elements() == 0) continue;
      const float* x = tensor.data<float>();
      float low = INFINITY, high = -INFINITY, poison = 0;
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        poison += x[i] * 0.0f;  // NaN as soon as one element is not finite
      }
      if (!(poison == 0))
        return InvalidInput("calibration: value {} holds a NaN or an infinity in sample {}", w.name,
                            sample);
      Observed& o = w.observed;
      o.range = w.seen ? Range{std::min(o.range.min, low), std::max(o.range.max, high)}
                       : Range{low, high};
      constexpr float kNew = 0.01f;
      o.average = w.seen ? Range{o.average.min + kNew * (low - o.average.min),
                                 o.average.max + kNew * (high - o.average.max)}
                         : Range{low, high};
      w.seen = true;
      if (w.channel_axis >= 0) SumChannels(tensor, w);
    }
    return {};
  }

  Status CountBins(std::span<const Tensor> inputs, std::span<const Tensor> outputs, int) {
    for (Watched& w : watched_) {
      Histogram& h = w.observed.histogram;
      if (h.counts.empty()) continue;
      const Tensor& tensor = w.input >= 0 ? inputs[w.input] : outputs[w.output];
      const float* x = tensor.data<float>();
      const bool magnitude = def_.histogram == HistogramKind::kMagnitude;
      const double scale = static_cast<double>(h.counts.size()) / (h.high - h.low);
      const auto last = static_cast<int64_t>(h.counts.size()) - 1;
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        const double v = magnitude ? std::fabs(x[i]) : x[i];
        ++h.counts[std::clamp(static_cast<int64_t>((v - h.low) * scale), int64_t{0}, last)];
      }
    }
    return {};
  }

  Ranges Choose() const {
    Ranges ranges;
    for (const Watched& w : watched_) {
      if (!w.seen) continue;
      Range& range = ranges[w.name] = def_.choose(w.observed, options_);
      range.channel_max = w.channel_max;
      for (double sum : w.channel_sums)
        range.channel_means.push_back(static_cast<float>(sum / w.channel_count));
    }
    return ranges;
  }

 private:
  static void SumChannels(const Tensor& tensor, Watched& w) {
    const std::vector<int64_t> sizes = tensor.sizes();
    const int64_t channels = sizes[w.channel_axis];
    int64_t inner = 1;
    for (size_t i = w.channel_axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
    // A size that differs between samples counts no channels (the operands of a product of two
    // activations).
    if (w.channel_count > 0 && static_cast<int64_t>(w.channel_sums.size()) != channels) {
      w.channel_axis = -1;
      w.channel_sums.clear();
      w.channel_max.clear();
      return;
    }
    w.channel_sums.resize(channels);
    w.channel_max.resize(channels);
    const float* x = tensor.data<float>();
    for (int64_t row = 0; row < tensor.elements() / inner; ++row) {
      double sum = 0;
      float largest = w.channel_max[row % channels];
      for (int64_t i = 0; i < inner; ++i) {
        const float v = x[row * inner + i];
        sum += v;
        largest = std::max(largest, std::fabs(v));
      }
      w.channel_sums[row % channels] += sum;
      w.channel_max[row % channels] = largest;
    }
    w.channel_count += tensor.elements() / channels;
  }

  const CalibrationOptions& options_;
  const ObserverDef& def_;
  std::vector<Watched> watched_;
};

}  // namespace

Result<Ranges> Calibrate(const Graph& graph, const PrepareFn& prepare, const SamplesFn& samples,
                         const CalibrationOptions& options, CalibrationNotes* notes) {
  if (options.bins < 256 || options.bins > (1 << 20)) {
    return Fail(ErrorCode::kUsage, "calibration: {} bins, expected 256 to {}", options.bins,
                1 << 20);
  }
  if (!(options.percentile > 0 && options.percentile <= 100)) {
    return Fail(ErrorCode::kUsage,
                "calibration: percentile {}, expected more than 0 and at most 100",
                options.percentile);
  }
  Calibrator calibrator(options);
  EVOQ_ASSIGN(const Graph instrumented, calibrator.Instrument(graph));
  EVOQ_ASSIGN(const RunFn run, prepare(instrumented));
  SampleCheck check(graph);
  int count = 0;
  using Step = Status (Calibrator::*)(std::span<const Tensor>, std::span<const Tensor>, int);
  const auto pass = [&](Step step) -> Status {
    count = 0;
    return samples([&](std::span<const Tensor> inputs) -> Status {
      EVOQ_ASSIGN(const std::vector<Tensor> outputs, run(inputs));
      if (step == &Calibrator::ObserveRange) check.Add(inputs);
      return (calibrator.*step)(inputs, outputs, count++);
    });
  };
  EVOQ_TRY(pass(&Calibrator::ObserveRange));
  if (count == 0) return InvalidInput("calibration: no sample was given");
  if (calibrator.NeedsHistograms()) {
    calibrator.StartHistograms();
    EVOQ_TRY(pass(&Calibrator::CountBins));
  }
  Ranges ranges = calibrator.Choose();
  if (notes != nullptr) {
    notes->samples = count;
    notes->warnings = check.Warnings();
    for (std::string& warning : RangeWarnings(graph, ranges))
      notes->warnings.push_back(std::move(warning));
  }
  return ranges;
}

}  // namespace evoq
