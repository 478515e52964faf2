#include "quant/method.h"

#include <algorithm>
#include <set>

#include "base/nearest.h"
#include "base/rows.h"
#include "quant/params.h"

namespace evoq {

#define EVOQ_ROW_TYPE QuantMethod
#define EVOQ_ROW_FILE "quant/methods.inc"
#include "base/rows.inl.h"

std::span<const QuantMethod* const> AllMethods() { return kAllRows; }
const QuantMethod* FindMethod(std::string_view name) { return FindRow(AllMethods(), name); }

const char* StageName(MethodStage stage) {
  switch (stage) {
    case MethodStage::kFloat: return "float";
    case MethodStage::kRounding: return "rounding";
    case MethodStage::kCorrection: return "correction";
  }
  return "";
}

void MethodRun::Choose(const std::string& weight, Tensor form, bool fitted) {
  rounded[weight] = std::move(form);
  if (fitted) {
    options.compensated.insert(weight);
  } else {
    options.compensated.erase(weight);
  }
}

Result<MethodChoice> ParseMethods(std::string_view names) {
  if (names.empty()) return MethodChoice();
  std::vector<const QuantMethod*> methods;
  if (names == "none") return MethodChoice(methods);
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    const QuantMethod* method = FindMethod(name);
    if (method == nullptr)
      return Fail(ErrorCode::kUsage, "--method {}: \"{}\" is not one of `evoq list methods`{}",
                  names, name, NearestHint(name, AllMethods()));
    if (std::ranges::find(methods, method) != methods.end())
      return Fail(ErrorCode::kUsage, "--method {}: {} stands there twice", names, name);
    methods.push_back(method);
    begin = end + 1;
  }
  std::ranges::stable_sort(methods, {}, &QuantMethod::stage);
  return MethodChoice(std::move(methods));
}

Status CheckMethods(const MethodChoice& methods, const QuantScheme& scheme,
                    const QuantizeOptions& options) {
  if (!methods) return {};
  for (const QuantMethod* method : *methods) {
    if (const std::string why = method->refuses(scheme, options); !why.empty())
      return Fail(ErrorCode::kUsage, "--method {} does not go with --scheme {}: {}", method->name,
                  scheme.name, why);
  }
  return {};
}

bool NeedSamples(const MethodChoice& methods) {
  return methods && std::ranges::any_of(*methods, &QuantMethod::needs_samples);
}

Result<std::vector<WeightRounding>> WeightsToRound(const QuantScheme& scheme, const Graph& graph,
                                                   const Ranges& ranges,
                                                   const QuantizeOptions& options) {
  std::vector<WeightRounding> roundings;
  std::set<std::string> seen;
  QuantizeOptions recording = options;
  recording.round = [&](const WeightRounding& rounding) {
    if (seen.insert(rounding.weight).second) roundings.push_back(rounding);
    return RoundToNearest(rounding, options.threads);
  };
  Graph copy = graph;
  EVOQ_TRY(scheme.run(copy, ranges, recording));
  return roundings;
}

namespace {

// The scales that the method chose hold the bias of every operator that reads the weight.
bool Fits(const Tensor& quantized, const WeightRounding& rounding) {
  const auto& scales = quantized.type().quant->scales;
  for (size_t c = 0; c < scales.size() && !rounding.least_scale.empty(); ++c) {
    if (scales[c] < rounding.least_scale[c % rounding.least_scale.size()]) return false;
  }
  return true;
}

// Runs the methods of a stage on what `run` refers to.
Status RunStage(MethodStage stage, std::span<const QuantMethod* const> methods, MethodRun run) {
  for (const QuantMethod* method : methods) {
    if (method->stage != stage || method->run == nullptr) continue;
    run.recalibrate = false;
    EVOQ_TRY(WithContext(method->run(run), method->name));
    if (run.recalibrate && run.data.samples && !run.ranges.empty()) {
      EVOQ_ASSIGN(run.ranges,
                  Calibrate(run.graph, run.data.prepare, run.data.samples, run.data.calibration));
    }
  }
  return {};
}

}  // namespace

Result<PreparedQuantization> PreparedQuantization::Of(const QuantScheme& scheme,
                                                      const MethodChoice& methods, Graph graph,
                                                      const Ranges& ranges,
                                                      const QuantizeOptions& options,
                                                      const MethodData& data) {
  EVOQ_TRY(CheckMethods(methods, scheme, options));
  for (const QuantMethod* method : methods.value_or(std::vector<const QuantMethod*>())) {
    if (method->needs_samples && (!data.samples || !data.prepare))
      return Fail(ErrorCode::kUsage, "--method {} needs samples to observe layers on",
                  method->name);
  }
  PreparedQuantization prepared(scheme, methods, std::move(graph), ranges, options, data);
  EVOQ_TRY(prepared.Prepare());
  return prepared;
}

Status PreparedQuantization::Prepare() {
  if (!methods_) return {};
  options_.equalize = options_.correct_bias = false;
  EVOQ_TRY(scheme_->prepare(graph_, ranges_, options_));
  for (const MethodStage stage : {MethodStage::kFloat, MethodStage::kRounding}) {
    EVOQ_TRY(RunStage(stage, *methods_,
                      {.scheme = *scheme_,
                       .graph = graph_,
                       .float_graph = nullptr,
                       .ranges = ranges_,
                       .options = options_,
                       .rounded = rounded_,
                       .data = data_,
                       .warnings = warnings_}));
  }
  for (const QuantMethod* method : *methods_) {
    if (method->ask != nullptr) method->ask(options_);
    if (method->stage == MethodStage::kRounding && rounded_.empty())
      warnings_.push_back(fmt::format(
          "--method {}: --scheme {} has methods round no weight of this model, so it did nothing",
          method->name, scheme_->name));
  }
  return {};
}

Result<PreparedQuantization::Quantized> PreparedQuantization::Finish(Graph graph,
                                                                     const Finishing& how) const {
  QuantizeOptions options = options_;
  options.keep.insert(how.keep.begin(), how.keep.end());
  std::vector<std::string> warnings = warnings_;
  if (!rounded_.empty() || how.before) {
    options.round = [&](WeightRounding rounding) {
      if (how.before) how.before(rounding);
      const auto found = rounded_.find(rounding.weight);
      if (found == rounded_.end()) return Rounded(options_, rounding);
      if (Fits(found->second, rounding)) return found->second;
      warnings.push_back(
          fmt::format("{}: the bias of {} asks for larger scales than the methods "
                      "chose: it is rounded to nearest",
                      rounding.weight, rounding.node));
      return Rounded(options_, rounding);
    };
  }
  const bool corrects =
      methods_ && std::ranges::any_of(*methods_, [](const QuantMethod* method) {
        return method->stage == MethodStage::kCorrection && method->run != nullptr;
      });
  std::optional<Graph> float_graph;
  if (corrects) float_graph = graph;
  EVOQ_ASSIGN(QuantizeReport report, scheme_->run(graph, how.ranges, options));
  if (corrects) {
    Ranges ranges = how.ranges;
    std::map<std::string, Tensor> rounded = rounded_;
    EVOQ_TRY(RunStage(MethodStage::kCorrection, *methods_,
                      {.scheme = *scheme_,
                       .graph = graph,
                       .float_graph = &*float_graph,
                       .ranges = ranges,
                       .options = options,
                       .rounded = rounded,
                       .data = how.data,
                       .warnings = warnings}));
  }
  report.warnings.insert(report.warnings.end(), warnings.begin(), warnings.end());
  return Quantized{std::move(graph), std::move(report)};
}

Result<PreparedQuantization::Quantized> PreparedQuantization::Quantize(const Reasons& keep) const {
  return Finish(graph_, {.ranges = ranges_, .data = data_, .keep = keep});
}

Result<std::vector<PreparedQuantization::Quantized>> PreparedQuantization::QuantizeEach(
    std::span<const Ranges> ranges, std::span<const MethodData> data) const {
  std::map<std::string, std::vector<float>> least;  // by weight: the largest lower bounds
  const auto note = [&](WeightRounding& rounding) {
    std::vector<float>& bounds = least[rounding.weight];
    bounds.resize(std::max(bounds.size(), rounding.least_scale.size()));
    for (size_t c = 0; c < rounding.least_scale.size(); ++c)
      bounds[c] = std::max(bounds[c], rounding.least_scale[c]);
  };
  for (const Ranges& of_set : ranges) {
    Graph graph = graph_;
    QuantizeOptions options = options_;
    options.round = [&](WeightRounding rounding) {
      note(rounding);
      return RoundToNearest(rounding, options_.threads);
    };
    EVOQ_TRY(scheme_->run(graph, of_set, options));
  }
  std::vector<Quantized> all;
  for (size_t s = 0; s < ranges.size(); ++s) {
    const Finishing how{
        .ranges = ranges[s], .data = data[s], .before = [&](WeightRounding& rounding) {
          rounding.least_scale = least.at(rounding.weight);
        }};
    EVOQ_ASSIGN(Quantized quantized, Finish(graph_, how));
    all.push_back(std::move(quantized));
  }
  return all;
}

Result<PreparedQuantization::Quantized> PreparedQuantization::QuantizeOnce() && {
  Graph graph = std::move(graph_);
  return Finish(std::move(graph), {.ranges = ranges_, .data = data_});
}

Result<QuantizeReport> QuantizeBy(const QuantScheme& scheme, const MethodChoice& methods,
                                  Graph& graph, const Ranges& ranges,
                                  const QuantizeOptions& options, const MethodData& data) {
  if (!methods) return scheme.run(graph, ranges, options);
  EVOQ_ASSIGN(PreparedQuantization prepared,
              PreparedQuantization::Of(scheme, methods, graph, ranges, options, data));
  EVOQ_ASSIGN(PreparedQuantization::Quantized quantized, std::move(prepared).QuantizeOnce());
  graph = std::move(quantized.graph);
  return std::move(quantized.report);
}

}  // namespace evoq
