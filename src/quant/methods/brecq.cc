// Block reconstruction: whether the weights of a block are rounded up or down is learned at once,
// on the error of the block's results beside the float model's, as adaround does it for one layer.
// A block's inputs are those that the blocks before give with their weights rounded.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "quant/block_rounding.h"
#include "quant/blocks.h"
#include "quant/observe.h"
#include "quant/rounding_method.h"
#include "quant/soft_rounding.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr size_t kLayers = 3;                       // of a block, at least
constexpr int64_t kMostBytes = int64_t{512} << 20;  // of a block's inputs and results, all samples

struct Layer {
  WeightRounding rounding;
  LayerMatrices matrices;
};

// A sample on its way through the blocks: what depends on no layer, and what a block hands to the
// next, in the float model and with the weights before rounded.
struct SampleValues {
  std::map<std::string, Tensor> sides;
  Tensor real, rounded;
};

using RoundedWeights = std::map<std::string, Tensor>;  // by the name of the constant
using Results = std::vector<std::vector<Tensor>>;      // outputs of a block for each sample

// Between these the numbers of a layer are learned, and how they are stored.
class SoftLayer {
 public:
  SoftLayer(const Layer& layer, const Tensor& before)
      : layer_(layer), grid_(layer.rounding, layer.matrices) {
    const LayerMatrices& m = layer.matrices;
    const auto count = static_cast<size_t>(layer.rounding.values.elements());
    soft_ = {.name = layer.rounding.weight,
             .low = std::vector<float>(count),
             .high = std::vector<float>(count),
             .start = std::vector<float>(count)};
    for (int64_t g = 0; g < m.groups; ++g) {
      RoundedMatrix rounded = grid_.Read(g, before);
      const std::vector<float> w = Begin(rounded, grid_.Matrix(g));
      NumbersAround around = Around(grid_, w, rounded);
      for (int64_t k = 0; k < m.depth; ++k) {
        for (int64_t n = 0; n < m.columns; ++n) {
          const int64_t i = k * m.columns + n;
          const auto at = static_cast<size_t>(m.Element(g, k, n));
          const float scale = ScaleOf(rounded, k, n), low = around.low[i], high = around.high[i];
          soft_.low[at] = low * scale;
          soft_.high[at] = high * scale;
          soft_.start[at] = high > low ? (w[i] / scale - low) / (high - low) : 0;
        }
      }
      rounded_.push_back(std::move(rounded));
      around_.push_back(std::move(around));
    }
  }

  const SoftWeight& soft() const { return soft_; }

  Tensor Stored(const std::vector<bool>& higher) {
    const LayerMatrices& m = layer_.matrices;
    for (int64_t g = 0; g < m.groups; ++g) {
      for (int64_t i = 0; i < m.depth * m.columns; ++i) {
        const int64_t at = m.Element(g, i / m.columns, i % m.columns);
        rounded_[g].numbers[i] = higher[at] ? around_[g].high[i] : around_[g].low[i];
      }
    }
    return grid_.Store(rounded_);
  }

 private:
  float ScaleOf(const RoundedMatrix& rounded, int64_t k, int64_t n) const {
    return rounded.scales[k / grid_.block() * layer_.matrices.columns + n];
  }

  // Where learning begins: at the weights, or near the numbers, where a method before has chosen
  // others than the nearest.
  std::vector<float> Begin(const RoundedMatrix& rounded, std::vector<float> w) const {
    constexpr float kNear = 0.1f;  // of the way to the next number
    const LayerMatrices& m = layer_.matrices;
    std::vector<float> nearest(w.size());
    for (int64_t k = 0; k < m.depth; ++k) {
      const int64_t scales = k / grid_.block() * m.columns;
      grid_.Nearest(&w[k * m.columns], &rounded.scales[scales], &rounded.zeros[scales], m.columns,
                    &nearest[k * m.columns]);
    }
    if (nearest == rounded.numbers) return w;
    for (int64_t i = 0; i < static_cast<int64_t>(w.size()); ++i) {
      const float scale = ScaleOf(rounded, i / m.columns, i % m.columns);
      const float number = rounded.numbers[i], off = w[i] / scale - number;
      w[i] = (number + std::clamp(off, -kNear, kNear)) * scale;
    }
    return w;
  }

  const Layer& layer_;
  WeightGrid grid_;
  SoftWeight soft_;
  std::vector<RoundedMatrix> rounded_;  // of each group
  std::vector<NumbersAround> around_;
};

class BlockReconstruction {
 public:
  explicit BlockReconstruction(MethodRun& run) : run_(run) {}

  Status Run() {
    EVOQ_TRY(FindLayers());
    std::set<std::string> names;
    for (const auto& [name, layer] : layers_) names.insert(name);
    EVOQ_ASSIGN(blocks_, BlocksOf(run_.graph, names, kLayers));
    while (!blocks_.empty() && blocks_.back().layers.empty()) blocks_.pop_back();
    if (blocks_.empty()) return {};
    EVOQ_TRY(ReadSamples());
    for (const Block& block : blocks_) EVOQ_TRY(Round(block));
    for (const auto& [why, layers] : kept_)
      run_.warnings.push_back(fmt::format(
          "--method brecq: {} layers keep the rounding that they had before it: {}", layers, why));
    return {};
  }

 private:
  Status FindLayers() {
    EVOQ_ASSIGN(std::vector<WeightRounding> weights,
                WeightsToRound(run_.scheme, run_.graph, run_.ranges, run_.options));
    for (WeightRounding& rounding : weights) {
      const NodeId id = run_.graph.FindNode(rounding.node);
      if (!id.valid() || rounding.input != 1) continue;
      const auto matrices = MatricesOf(run_.graph.node(id), rounding.values);
      const std::string name = rounding.node;
      if (matrices) layers_.emplace(name, Layer{std::move(rounding), *matrices});
    }
    return {};
  }

  // What blocks read that no block computes.
  std::vector<std::string> Sides() const {
    std::set<std::string> sides;
    for (const Block& block : blocks_) {
      for (ValueId v : block.graph.inputs()) {
        if (block.graph.value(v).name != block.carried) sides.insert(block.graph.value(v).name);
      }
    }
    return {sides.begin(), sides.end()};
  }

  // Those of the sizes that most have.
  Status ReadSamples() {
    const std::vector<std::string> sides = Sides();
    std::map<std::vector<std::vector<int64_t>>, std::vector<SampleValues>> by_sizes;
    const Graph* const graphs[] = {&run_.graph};
    EVOQ_TRY(ObserveValues(graphs, sides, run_.data, [&](const ValuesOfGraphs& all) -> Status {
      SampleValues sample;
      std::vector<std::vector<int64_t>> sizes;
      for (size_t i = 0; i < sides.size(); ++i) {
        sample.sides[sides[i]] = all[0][i];
        sizes.push_back(all[0][i].sizes());
      }
      std::vector<SampleValues>& alike = by_sizes[sizes];
      for (auto& [name, value] : sample.sides) {  // kept once
        if (!alike.empty() && BitEqual(value, alike[0].sides.at(name)))
          value = alike[0].sides.at(name);
      }
      alike.push_back(std::move(sample));
      return {};
    }));
    const auto count = [](const auto& of_sizes) { return of_sizes.second.size(); };
    samples_ = std::move(std::ranges::max_element(by_sizes, {}, count)->second);
    return {};
  }

  // What all samples have alike: positions, lengths, empty caches.
  std::map<std::string, Tensor> KnownSides(const Block& block) const {
    std::map<std::string, Tensor> known;
    for (ValueId v : block.graph.inputs()) {
      const std::string& name = block.graph.value(v).name;
      if (name == block.carried) continue;
      const Tensor& first = samples_[0].sides.at(name);
      const bool alike = std::ranges::all_of(samples_, [&](const SampleValues& sample) {
        return BitEqual(sample.sides.at(name), first);
      });
      if (alike) known[name] = first;
    }
    return known;
  }

  std::vector<Tensor> InputsOf(const Block& block, const SampleValues& sample, bool rounded) const {
    std::vector<Tensor> inputs;
    for (ValueId v : block.graph.inputs()) {
      const std::string& name = block.graph.value(v).name;
      const Tensor& carried = rounded ? sample.rounded : sample.real;
      inputs.push_back(name == block.carried ? carried : sample.sides.at(name));
    }
    return inputs;
  }

  Result<Results> ResultsOf(const Block& block, const Graph& graph, bool rounded) const {
    EVOQ_ASSIGN(const RunFn run, run_.data.prepare(graph));
    Results results;
    for (const SampleValues& sample : samples_) {
      EVOQ_ASSIGN(std::vector<Tensor> outputs, run(InputsOf(block, sample, rounded)));
      results.push_back(std::move(outputs));
    }
    return results;
  }

  // Samples that are too many for memory go, evenly.
  Status KeepWhatFits(const Block& block) {
    EVOQ_ASSIGN(const RunFn run, run_.data.prepare(block.graph));
    const std::vector<Tensor> inputs = InputsOf(block, samples_[0], false);
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, run(inputs));
    int64_t bytes = 1;  // inputs of both models; results of the float one, before and after
    for (const Tensor& t : inputs) bytes += 2 * static_cast<int64_t>(t.bytes());
    for (const Tensor& t : outputs) bytes += 4 * static_cast<int64_t>(t.bytes());
    const auto most = static_cast<size_t>(std::max<int64_t>(1, kMostBytes / bytes));
    if (samples_.size() <= most) return {};
    std::vector<SampleValues> kept;
    for (size_t i = 0; i < most; ++i)
      kept.push_back(std::move(samples_[i * samples_.size() / most]));
    samples_ = std::move(kept);
    return {};
  }

  static Result<Graph> WithWeights(Graph graph, const RoundedWeights& weights) {
    for (const auto& [name, tensor] : weights) {
      EVOQ_ASSIGN(Tensor real, ToFloat32(tensor));
      graph.SetConstant(graph.FindValue(name), std::move(real));
    }
    return graph;
  }

  // Real numbers among the outputs, each by its root mean square.
  static JoinedOutputs Judged(const Results& wanted) {
    JoinedOutputs judged;
    for (size_t o = 0; o < wanted[0].size(); ++o) {
      const TensorType& type = wanted[0][o].type();
      if (!type.is_tensor() || type.dtype != DType::kFloat32 || type.quantized()) continue;
      double squares = 0, count = 0;
      for (const std::vector<Tensor>& of_sample : wanted) {
        for (const float v : of_sample[o].values<float>()) squares += static_cast<double>(v) * v;
        count += static_cast<double>(of_sample[o].elements());
      }
      if (!(squares > 0) || !std::isfinite(squares)) continue;
      judged.outputs.push_back(o);
      judged.factors.push_back(static_cast<float>(std::sqrt(count / squares)));
    }
    return judged;
  }

  // Nothing is learned of one sample in so many, where there are enough: they judge what was.
  static constexpr size_t kJudges = 8;
  static bool Judges(size_t sample, size_t samples) {
    return samples < 2 * kJudges || sample % kJudges == kJudges - 1;
  }
  static bool Teaches(size_t sample, size_t samples) {
    return samples < 2 * kJudges || !Judges(sample, samples);
  }

  // The mean over samples of |r - w|^2 / |w|^2.
  static double Error(const std::vector<Tensor>& wanted, const JoinedOutputs& judged,
                      const Results& results) {
    double sum = 0;
    int count = 0;
    for (size_t s = 0; s < wanted.size(); ++s) {
      if (!Judges(s, wanted.size())) continue;
      ++count;
      const Tensor joined = judged.Of(results[s]);
      const auto w = wanted[s].values<float>(), r = joined.values<float>();
      double error = 0, size = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        error += std::pow(static_cast<double>(r[i]) - w[i], 2);
        size += static_cast<double>(w[i]) * w[i];
      }
      sum += size > 0 ? error / size : error;
    }
    return sum / count;
  }

  Status Round(const Block& block) {
    EVOQ_TRY(KeepWhatFits(block));
    EVOQ_ASSIGN(Results real, ResultsOf(block, block.graph, /*rounded=*/false));
    RoundedWeights weights;
    for (const std::string& name : block.layers) {
      const WeightRounding& rounding = layers_.at(name).rounding;
      const auto before = run_.rounded.find(rounding.weight);
      weights[rounding.weight] = before != run_.rounded.end()
                                     ? before->second
                                     : RoundToNearest(rounding, run_.options.threads);
    }
    EVOQ_ASSIGN(const Graph as_before, WithWeights(block.graph, weights));
    EVOQ_ASSIGN(Results results, ResultsOf(block, as_before, /*rounded=*/true));
    const JoinedOutputs judged = Judged(real);
    std::vector<Tensor> wanted;
    for (const std::vector<Tensor>& of_sample : real) wanted.push_back(judged.Of(of_sample));
    const double error = judged.outputs.empty() ? 0 : Error(wanted, judged, results);
    bool better = false;
    if (error > 0) {
      auto learned = Learn(block, judged, wanted, error, weights);
      const ErrorCode code = learned ? ErrorCode::kInternal : learned.error().code();
      if (code == ErrorCode::kUnsupported) {
        kept_[learned.error().message()] += static_cast<int>(block.layers.size());
      } else {
        EVOQ_TRY(learned);
        EVOQ_ASSIGN(const Graph as_learned, WithWeights(block.graph, *learned));
        EVOQ_ASSIGN(Results after, ResultsOf(block, as_learned, /*rounded=*/true));
        if (Error(wanted, judged, after) < error) {
          weights = std::move(*learned);
          better = true;
          results = std::move(after);
        }
      }
    }
    for (auto& [name, tensor] : weights)
      run_.Choose(name, std::move(tensor), better || run_.options.compensated.contains(name));
    HandOn(block, real, results);
    return {};
  }

  Result<RoundedWeights> Learn(const Block& block, const JoinedOutputs& judged,
                               const std::vector<Tensor>& wanted, double error,
                               const RoundedWeights& before) const {
    const std::map<std::string, Tensor> known = KnownSides(block);
    std::map<std::string, std::vector<int64_t>> sizes;
    std::vector<std::vector<Tensor>> inputs;
    std::vector<Tensor> targets;
    for (size_t s = 0; s < samples_.size(); ++s) {
      if (!Teaches(s, samples_.size())) continue;
      const std::vector<Tensor> all = InputsOf(block, samples_[s], true);
      std::vector<Tensor>& own = inputs.emplace_back();
      for (size_t i = 0; i < all.size(); ++i) {
        const std::string& name = block.graph.value(block.graph.inputs()[i]).name;
        if (known.contains(name)) continue;
        own.push_back(all[i]);
        sizes[name] = all[i].sizes();
      }
      targets.push_back(wanted[s]);
    }
    EVOQ_ASSIGN(const Graph graph, judged.GraphOf(block.graph, known, sizes));
    BlockRounding problem{.graph = graph,
                          .inputs = inputs,
                          .targets = targets,
                          .error_before = error,
                          .threads = run_.options.threads};
    std::vector<SoftLayer> layers;
    for (const std::string& name : block.layers) {
      const Layer& layer = layers_.at(name);
      layers.emplace_back(layer, before.at(layer.rounding.weight));
      problem.weights.push_back(layers.back().soft());
    }
    EVOQ_ASSIGN(const std::vector<std::vector<bool>> higher, run_.data.learn(problem));
    RoundedWeights learned;
    for (size_t i = 0; i < layers.size(); ++i)
      learned[problem.weights[i].name] = layers[i].Stored(higher[i]);
    return learned;
  }

  // What the next block reads of this one.
  void HandOn(const Block& block, Results& real, Results& rounded) {
    const size_t next = static_cast<size_t>(&block - blocks_.data()) + 1;
    if (next == blocks_.size()) return;
    for (size_t o = 0; o < block.graph.outputs().size(); ++o) {
      if (block.graph.value(block.graph.outputs()[o]).name != blocks_[next].carried) continue;
      for (size_t s = 0; s < samples_.size(); ++s) {
        samples_[s].real = std::move(real[s][o]);
        samples_[s].rounded = std::move(rounded[s][o]);
      }
      return;
    }
  }

  MethodRun& run_;
  std::map<std::string, Layer> layers_;  // by node
  std::vector<Block> blocks_;
  std::vector<SampleValues> samples_;
  std::map<std::string, int> kept_;  // layers that could not be learned, by the reason
};

}  // namespace

extern const QuantMethod kMethodBrecq = {
    .name = "brecq",
    .doc =
        "Block reconstruction: whether each weight of a block of layers is rounded up or down is "
        "learned at once by gradient descent on the error of the block's results.",
    .paper = "Li et al. 2021, arXiv:2102.05426",
    .stage = MethodStage::kRounding,
    .needs_samples = true,
    .for_auto = false,
    .refuses = RoundsNoWholeNumbers,
    .run = [](MethodRun& run) -> Status {
      if (!run.data.learn)
        return Fail(ErrorCode::kUsage, "it needs gradients, and its caller has none");
      return BlockReconstruction(run).Run();
    },
};

}  // namespace evoq
