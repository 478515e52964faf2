#include "parity/sensitivity.h"

#include <algorithm>
#include <numeric>

#include "certify/sized_by_data.h"
#include "ops/roles.h"
#include "parity/part_runs.h"
#include "quant/plan.h"

namespace evoq {
namespace {

const Reason kSpared{"sensitivity", "left as it is to see what it adds"};

bool QuantizesSomething(const QuantizeReport& report) {
  return report.nodes.Total() > report.nodes[Precision::kFloat32] || report.int8_weights > 0 ||
         !report.low_bit_weights.empty();
}

// Rounds each weight once, as long as its values and scales stay the same.
class RoundedOnce {
 public:
  explicit RoundedOnce(int threads) : threads_(threads) {}

  Tensor Round(const WeightRounding& rounding) {
    auto& [last, rounded] = known_[rounding.weight];
    if (!last || !Same(*last, rounding)) {
      last = rounding;
      rounded = RoundToNearest(rounding, threads_);
    }
    return rounded;
  }

 private:
  static bool Same(const WeightRounding& a, const WeightRounding& b) {
    return a.low_bits == b.low_bits && a.block == b.block && a.axis == b.axis &&
           a.least_scale == b.least_scale &&
           (a.values.raw() == b.values.raw() || BitEqual(a.values, b.values));
  }

  int threads_;
  std::map<std::string, std::pair<std::optional<WeightRounding>, Tensor>> known_;
};

class Analysis {
 public:
  Analysis(const SensitivityInput& input, const Samples& samples)
      : input_(input), samples_(samples) {}

  Result<Sensitivity> Run() {
    EVOQ_TRY(Tell("quantizing", 0));
    QuantizeOptions options = input_.options;
    if (!options.round) {
      options.round = [once = std::make_shared<RoundedOnce>(options.threads)](
                          const WeightRounding& rounding) { return once->Round(rounding); };
    }
    EVOQ_ASSIGN(PreparedQuantization prepared,
                PreparedQuantization::Of(*input_.scheme, input_.methods, input_.graph,
                                         input_.ranges, options, input_.data));
    prepared_.emplace(std::move(prepared));
    EVOQ_TRY(RunFloat());
    EVOQ_ASSIGN(PreparedQuantization::Quantized all, prepared_->Quantize());
    all_ = std::move(all.graph);
    out_.warnings = std::move(all.report.warnings);
    quantized_runs_.emplace(all_, samples_.inputs, input_.prepare);
    if (QuantizesSomething(all.report)) FindLayers(all.report);
    EVOQ_ASSIGN(out_.all, ErrorOf(all_, *quantized_runs_));
    EVOQ_TRY(MeasureLayers());
    if (out_.layers.empty())
      return Fail(ErrorCode::kUsage, "--scheme {} quantizes no layer of this model",
                  input_.scheme->name);
    Rank();
    EVOQ_ASSIGN(out_.tensors, FindOutliers(prepared_->graph(), layers_, Data()));
    if (input_.min_sqnr_db) EVOQ_TRY(FindExclusion(*input_.min_sqnr_db));
    return std::move(out_);
  }

 private:
  Status Tell(const char* stage, double fraction) const {
    return input_.progress ? input_.progress(stage, fraction) : Status();
  }

  MethodData Data() const {
    return {.prepare = input_.prepare,
            .samples = [this](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
              for (const auto& inputs : samples_.inputs) EVOQ_TRY(use(inputs));
              return {};
            }};
  }

  // What is right, and what it is measured by.
  Status RunFloat() {
    const std::set<ValueId> unsized = samples_.inputs.empty()
                                          ? std::set<ValueId>()
                                          : SizedByData(input_.graph, samples_.inputs[0]);
    for (ValueId id : input_.graph.outputs()) judged_.push_back(!unsized.contains(id));
    if (std::ranges::find(judged_, true) == judged_.end())
      return InvalidInput(
          "the sizes of all outputs depend on the data, and no position in them tells what a layer "
          "loses: add an output before them");
    EVOQ_ASSIGN(const RunFn run, input_.prepare(input_.graph));
    for (size_t s = 0; s < samples_.inputs.size(); ++s) {
      EVOQ_ASSIGN(std::vector<Tensor> outputs, run(samples_.inputs[s]));
      if (!samples_.next.empty() && !outputs.empty()) outputs.resize(1);  // without the caches
      right_.outputs.push_back(std::move(outputs));
      EVOQ_TRY(Tell("running the float model",
                    static_cast<double>(s + 1) / static_cast<double>(samples_.inputs.size())));
    }
    out_.metric = ChooseMetric(samples_, right_);
    OutputErrors exact(out_.metric, HasScores(), samples_.rows);
    for (size_t s = 0; s < right_.outputs.size(); ++s) EVOQ_TRY(Add(exact, s, right_.outputs[s]));
    out_.float_metric = exact.Mean().metric;
    float_runs_.emplace(prepared_->graph(), samples_.inputs, input_.prepare);
    return {};
  }

  std::vector<bool> judged_;  // by output of the model

  bool HasScores() const { return !samples_.next.empty() || AreClassScores(right_, samples_.rows); }

  Status Add(OutputErrors& errors, size_t s, std::span<const Tensor> outputs) const {
    const auto next =
        samples_.next.empty() ? std::span<const int64_t>() : std::span(samples_.next[s]);
    const std::vector<Tensor> right = JudgedOf(right_.outputs[s]);
    const std::vector<Tensor> got =
        JudgedOf(outputs.first(std::min(outputs.size(), right_.outputs[s].size())));
    return WithContext(errors.Add(right, got, samples_.labels_of(s), next),
                       fmt::format("sample {}", s));
  }

  // Without outputs whose sizes depend on the data.
  std::vector<Tensor> JudgedOf(std::span<const Tensor> outputs) const {
    std::vector<Tensor> judged;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (o >= judged_.size() || judged_[o]) judged.push_back(outputs[o]);
    }
    return judged;
  }

  Result<OutputError> ErrorOf(const Graph& graph, PartRuns& runs) const {
    OutputErrors errors(out_.metric, HasScores(), samples_.rows);
    EVOQ_TRY(runs.Run(
        graph, [&](size_t s, std::span<const Tensor> outputs) { return Add(errors, s, outputs); }));
    return errors.Mean();
  }

  // Nodes that the scheme has taken: linear operators, and those that look up a constant; not those
  // that computed with integers before.
  void FindLayers(const QuantizeReport& report) {
    const Graph& graph = prepared_->graph();
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      const bool layer = IsLinear(node) || IsConstantTable(graph, node);
      const ValueId data = node.input(0);
      if (!data.valid() || graph.value(data).type.quantized()) continue;
      if (layer && !report.float_reasons.count(node.name)) layers_.push_back(id);
    }
  }

  Reasons AllBut(size_t layer) const {
    Reasons keep;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (i != layer) keep[NameOf(i)] = kSpared;
    }
    return keep;
  }
  const std::string& NameOf(size_t layer) const {
    return prepared_->graph().node(layers_[layer]).name;
  }

  // Forwards, so that PartRuns keeps what lies before.
  Status MeasureLayers() {
    std::vector<NodeId> layers;
    for (size_t i = 0; i < layers_.size(); ++i) {
      EVOQ_TRY(
          Tell("each layer alone", static_cast<double>(i) / static_cast<double>(layers_.size())));
      EVOQ_ASSIGN(const auto alone, prepared_->Quantize(AllBut(i)));
      // A product of two computed operands has no weight for schemes that quantize weights only.
      if (!QuantizesSomething(alone.report)) continue;
      LayerSensitivity& layer = out_.layers.emplace_back();
      layer.name = NameOf(i);
      layer.op = prepared_->graph().node(layers_[i]).op;
      EVOQ_ASSIGN(layer.alone, WithContext(ErrorOf(alone.graph, *float_runs_), layer.name));
      layers.push_back(layers_[i]);
    }
    layers_ = std::move(layers);
    float_runs_.reset();
    for (size_t i = 0; i < layers_.size(); ++i) {
      EVOQ_TRY(
          Tell("each layer spared", static_cast<double>(i) / static_cast<double>(layers_.size())));
      EVOQ_ASSIGN(out_.layers[i].spared, ErrorWithout({i}));
    }
    return {};
  }

  // The error with these layers left as they are, all others quantized.
  Result<OutputError> ErrorWithout(const std::vector<size_t>& spared) {
    Reasons keep;
    for (const size_t i : spared) keep[NameOf(i)] = kSpared;
    EVOQ_ASSIGN(const auto quantized, prepared_->Quantize(keep));
    return ErrorOf(quantized.graph, *quantized_runs_);
  }

  // Layers by what `noise` says, largest first; equal ones in execution order.
  template <typename Noise>
  std::vector<size_t> Sorted(const Noise& noise) const {
    std::vector<size_t> order(out_.layers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](size_t i) { return noise(out_.layers[i]); });
    return order;
  }

  void Rank() {
    order_ = Sorted([](const LayerSensitivity& layer) { return layer.alone.noise; });
    const std::vector<size_t> spared =
        Sorted([](const LayerSensitivity& layer) { return -layer.spared.noise; });
    for (size_t k = 0; k < order_.size(); ++k) {
      out_.layers[order_[k]].rank_alone = static_cast<int>(k + 1);
      out_.layers[spared[k]].rank_spared = static_cast<int>(k + 1);
    }
  }

  Status FindExclusion(double min_db) {
    Exclusion found{.layers = {}, .error = out_.all, .tried = 1};
    std::vector<size_t> spared;
    const auto holds = [&](const std::vector<size_t>& layers) -> Result<bool> {
      EVOQ_TRY(Tell("looking for layers to exclude", 0));
      ++found.tried;
      EVOQ_ASSIGN(const OutputError error, ErrorWithout(layers));
      if (error.sqnr_db < min_db) return false;
      found.error = error;
      spared = layers;
      return true;
    };
    if (out_.all.sqnr_db < min_db) {
      EVOQ_TRY(Bisect(min_db, holds));
      for (size_t i = spared.size(); i-- > 0;) {  // the least important one first
        std::vector<size_t> fewer = spared;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        EVOQ_TRY(holds(fewer));
      }
      EVOQ_TRY(Confirm(min_db, spared, found));
    }
    std::ranges::sort(spared);
    for (const size_t i : spared) found.layers.push_back(NameOf(i));
    out_.exclusion = std::move(found);
    return {};
  }

  // Leaves in `holds` the shortest beginning of the order that holds.
  template <typename Holds>
  Status Bisect(double min_db, const Holds& holds) {
    const auto first = [&](size_t count) {
      return std::vector<size_t>(order_.begin(),
                                 order_.begin() + static_cast<std::ptrdiff_t>(count));
    };
    size_t fails = 0, good = order_.size();
    EVOQ_ASSIGN(const bool possible, holds(order_));
    if (!possible)
      return Fail(ErrorCode::kConditionFailed,
                  "with all {} layers in float an output has less than {:g} dB: the methods have "
                  "changed the float model",
                  order_.size(), min_db);
    while (good - fails > 1) {
      const size_t middle = (good + fails) / 2;
      EVOQ_ASSIGN(const bool enough, holds(first(middle)));
      (enough ? good : fails) = middle;
    }
    return {};
  }

  // Methods that choose numbers choose others where layers are left out: measured with those.
  Status Confirm(double min_db, std::vector<size_t>& spared, Exclusion& found) {
    const bool chooses =
        input_.methods && std::ranges::any_of(*input_.methods, [](const QuantMethod* method) {
          return method->run != nullptr && method->stage != MethodStage::kCorrection;
        });
    while (chooses) {
      QuantizeOptions options = input_.options;
      for (const size_t i : spared) options.keep[NameOf(i)] = kSpared;
      Graph graph = input_.graph;
      EVOQ_TRY(
          QuantizeBy(*input_.scheme, input_.methods, graph, input_.ranges, options, input_.data));
      ++found.tried;
      EVOQ_ASSIGN(found.error, ErrorOf(graph, *quantized_runs_));
      if (found.error.sqnr_db >= min_db) break;
      const auto more = std::ranges::find_if(
          order_, [&](size_t i) { return std::ranges::find(spared, i) == spared.end(); });
      if (more == order_.end())
        return Fail(ErrorCode::kConditionFailed, "no layers left in float give {:g} dB", min_db);
      spared.push_back(*more);
    }
    return {};
  }

  const SensitivityInput& input_;
  const Samples& samples_;
  std::optional<PreparedQuantization> prepared_;
  Graph all_;  // quantized throughout
  std::optional<PartRuns> float_runs_, quantized_runs_;
  Answers right_;
  std::vector<NodeId> layers_;  // of prepared_'s graph
  std::vector<size_t> order_;   // by rank_alone
  Sensitivity out_;
};

}  // namespace

Result<Sensitivity> MeasureSensitivity(const SensitivityInput& input, const Samples& samples) {
  if (samples.inputs.empty()) return InvalidInput("no sample was given");
  return Analysis(input, samples).Run();
}

}  // namespace evoq
