// Quantization methods: what makes a scheme lose less. A row in its own file, src/quant/methods,
// and one line in quant/methods.inc; what `--method` names.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/block_rounding.h"
#include "quant/quant.h"

namespace evoq {

// In the order in which they run.
enum class MethodStage {
  kFloat,       // Graph -> Graph that computes the same in float32 and loses less when quantized
  kRounding,    // chooses the quantized forms of weights
  kCorrection,  // changes what the scheme makes
};
const char* StageName(MethodStage stage);  // "float", "rounding", "correction"

// What methods observe layers on. Without functions: nothing.
struct MethodData {
  PrepareFn prepare;
  SamplesFn samples;
  CalibrationOptions calibration = {};  // of ranges that are observed anew
  LearnRoundingFn learn = {};           // of methods that learn by gradients
};

// What one method reads and changes.
struct MethodRun {
  const QuantScheme& scheme;
  Graph& graph;              // float32, as the scheme has prepared it; of a correction: quantized
  const Graph* float_graph;  // of a correction: what became quantized; else null
  // By value name. Who scales a value scales its range, or asks for `recalibrate`.
  Ranges& ranges;
  QuantizeOptions& options;  // that the scheme runs with; equalize and correct_bias begin false
  // Quantized forms of weights by the names of their constants, of the types that RoundToNearest
  // gives. A method that finds one there may keep its scales. Others are rounded to nearest.
  std::map<std::string, Tensor>& rounded;
  const MethodData& data;
  std::vector<std::string>& warnings;
  bool recalibrate = false;  // observe the ranges anew before what comes next

  // The form of a weight in `rounded`. `fitted`: to what the float model gives, its means included,
  // so that bias-correction leaves the layer alone.
  void Choose(const std::string& weight, Tensor form, bool fitted);
};

struct QuantMethod {
  const char* name;   // "gptq"
  const char* doc;    // a sentence
  const char* paper;  // "Frantar et al. 2022, arXiv:2210.17323"
  MethodStage stage;
  bool needs_samples = false;  // MethodData's
  bool for_auto = true;        // --method auto tries it: not what takes minutes
  // Why it cannot serve the scheme with these options, as the end of a sentence ("it rounds no
  // weights"); "": it can.
  std::string (*refuses)(const QuantScheme& scheme, const QuantizeOptions& options);
  // What the scheme is asked for, before it runs.
  void (*ask)(QuantizeOptions& options) = nullptr;
  Status (*run)(MethodRun& run) = nullptr;
};
std::span<const QuantMethod* const> AllMethods();
const QuantMethod* FindMethod(std::string_view name);

// What a job asks for: nothing: the scheme's defaults, as its `run` has them (int8: equalize and
// bias-correction).
using MethodChoice = std::optional<std::vector<const QuantMethod*>>;

// "a,b,c", or "none"; "": the defaults. Errors: kUsage for a name that no method has or that stands
// twice.
Result<MethodChoice> ParseMethods(std::string_view names);

// Why these do not go with the scheme: kUsage.
Status CheckMethods(const MethodChoice& methods, const QuantScheme& scheme,
                    const QuantizeOptions& options);
bool NeedSamples(const MethodChoice& methods);

// The weights that the scheme would round in `graph`, once each, in the order in which it does.
Result<std::vector<WeightRounding>> WeightsToRound(const QuantScheme& scheme, const Graph& graph,
                                                   const Ranges& ranges,
                                                   const QuantizeOptions& options);

// What the stages before the scheme make of a graph. The scheme can then run on it any number of
// times, each time on other layers: what the methods chose stays as it is.
class PreparedQuantization {
 public:
  struct Quantized {
    Graph graph;
    QuantizeReport report;
  };

  // Runs the float and rounding stages. Errors: those of QuantizeBy.
  static Result<PreparedQuantization> Of(const QuantScheme& scheme, const MethodChoice& methods,
                                         Graph graph, const Ranges& ranges,
                                         const QuantizeOptions& options,
                                         const MethodData& data = {});

  const Graph& graph() const { return graph_; }  // what becomes quantized
  // The scheme and the corrections on a copy of it; nodes of `keep` stay as they are too.
  Result<Quantized> Quantize(const Reasons& keep = {}) const;
  // One for each of several ranges, as of other samples, each with what its corrections observe
  // layers on. All share the forms of their weights: where the biases of one ask for larger scales,
  // all have them.
  Result<std::vector<Quantized>> QuantizeEach(std::span<const Ranges> ranges,
                                              std::span<const MethodData> data) const;
  // The same on the graph itself, which is gone then.
  Result<Quantized> QuantizeOnce() &&;

 private:
  PreparedQuantization(const QuantScheme& scheme, const MethodChoice& methods, Graph graph,
                       const Ranges& ranges, const QuantizeOptions& options, const MethodData& data)
      : scheme_(&scheme),
        methods_(methods),
        graph_(std::move(graph)),
        ranges_(ranges),
        options_(options),
        data_(data) {}
  // What a quantization takes besides the graph.
  struct Finishing {
    const Ranges& ranges;
    const MethodData& data;
    Reasons keep = {};
    // Changes what is to be rounded before it is; empty: nothing.
    std::function<void(WeightRounding&)> before = {};
  };
  Status Prepare();
  Result<Quantized> Finish(Graph graph, const Finishing& how) const;

  const QuantScheme* scheme_;
  MethodChoice methods_;
  Graph graph_;
  Ranges ranges_;
  QuantizeOptions options_;
  MethodData data_;
  std::map<std::string, Tensor> rounded_;  // as of MethodRun
  std::vector<std::string> warnings_;
};

// Runs the methods stage by stage, those of a stage in the order given, and the scheme before the
// corrections. Weights of the graph are float32 where methods are given. Errors: those of
// CheckMethods; kUsage where a method needs samples and `data` has none.
Result<QuantizeReport> QuantizeBy(const QuantScheme& scheme, const MethodChoice& methods,
                                  Graph& graph, const Ranges& ranges,
                                  const QuantizeOptions& options, const MethodData& data = {});

}  // namespace evoq
