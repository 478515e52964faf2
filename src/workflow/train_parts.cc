#include "workflow/train_parts.h"

#include <algorithm>

#include "base/file.h"
#include "llm/import.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "passes/choice.h"
#include "program/etm.h"
#include "quant/layer_bits.h"
#include "quant/low_bits.h"
#include "quant/unfuse.h"
#include "train/distill.h"
#include "train/lora.h"
#include "workflow/calibrate.h"
#include "workflow/models.h"
#include "workflow/unmatched.h"

namespace evoq {
namespace {

// So many samples tell the ranges that scales begin from.
constexpr int64_t kCalibrationSamples = 512;

std::vector<Tensor> InputsOf(const LabelledSamples& samples, int64_t i) {
  return evoq::InputsOf(samples, i, i + 1);
}

// Passes up to `level` (-1: all), but for the one that keeps equal constants once: parameters that
// are equal before they are trained part ways.
Status OptimizeForTraining(Graph& graph, int level) {
  const std::string chosen(ChoiceOf(graph, kPassChoice));
  EVOQ_TRY(ChoosePasses(graph, {.disable = {"common-subexpressions"}, .opt_level = level}));
  EVOQ_TRY(RunPasses(graph, Stage::kOptimize));
  graph.metadata.erase(kPassChoice);
  if (!chosen.empty()) graph.metadata[kPassChoice] = chosen;
  return {};
}

}  // namespace

Result<std::unique_ptr<QuantizedModel>> IntegersOf(const TrainJob& job, Graph graph,
                                                   const LabelledSamples& samples,
                                                   const Follow& follow) {
  const std::string float_bytes = std::to_string(FloatWeightBytes(graph));
  EVOQ_TRY(OptimizeForTraining(graph, -1));
  QuantizeOptions options;
  options.threads = job.threads > 0 ? job.threads : PhysicalCores();
  options.exclude = job.recipe.exclude;
  EVOQ_ASSIGN(std::vector<LayerBits> bits, ParseWeightBits(job.recipe.weight_bits));
  EVOQ_ASSIGN(options.activation_bits, ParseActivationBits(job.recipe.activation_bits));
  QuantizeOptions asked = options;
  asked.weight_bits = bits;
  // As --freeze and --decay: what names nothing is refused.
  if (const auto idle = UnmatchedWarnings(asked, NodeNames(graph), {}); !idle.empty())
    return Fail(ErrorCode::kUsage, "{}", idle[0]);
  options.equal_blocks = LowerExtension(job.output) == ".onnx";
  if (options.equal_blocks) options.target = FindQdqTarget("ort");
  const int64_t count = std::min(samples.count(), kCalibrationSamples);
  const SamplesFn each = [&](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      EVOQ_TRY(use(InputsOf(samples, i * samples.count() / count)));
      EVOQ_TRY(follow.At("calibrating", static_cast<double>(i + 1) / static_cast<double>(count)));
    }
    return {};
  };
  EVOQ_ASSIGN(Ranges ranges, Calibrate(graph, PrepareWithEngine(job.threads), each, {}));
  graph.metadata["evoq.scheme"] = job.recipe.scheme;
  graph.metadata["evoq.float_weight_bytes"] = float_bytes;
  return QuantizedModel::Create(std::move(graph), std::move(ranges), std::move(options),
                                std::move(bits));
}

namespace {

// The teacher's engine, its features' values as outputs behind its own; `outputs` gets the places
// of its scores and of the features.
Result<std::unique_ptr<Engine>> LoadTeacher(const TrainJob& job, const Graph& trained,
                                            TeacherHook& hook, std::vector<size_t>& outputs) {
  const std::vector<std::string>& wanted = job.recipe.distill_features;
  outputs = {0};
  const EngineOptions options{.threads = job.threads};
  if (LowerExtension(job.teacher) == ".etm") {
    if (!wanted.empty())
      return Fail(ErrorCode::kUsage,
                  "--distill-features {}: {} is compiled, expected the .onnx that it was made of",
                  wanted[0], job.teacher);
    return LoadEngine(job.teacher, options);
  }
  Graph graph;
  if (IsLanguageModelPath(job.teacher)) {  // its caches are of no use here
    EVOQ_ASSIGN(graph, ImportLanguageModel(job.teacher, LanguageForm::kWhole));
  } else {
    EVOQ_ASSIGN(graph, ImportModel(job.teacher));
  }
  EVOQ_ASSIGN(const std::vector<FeaturePair> pairs, PairFeatures(trained, graph, wanted));
  for (const FeaturePair& pair : pairs) {
    const ValueId id = graph.FindValue(pair.teacher);
    const auto known = std::ranges::find(graph.outputs(), id);
    outputs.push_back(static_cast<size_t>(known - graph.outputs().begin()));
    if (known == graph.outputs().end()) graph.MarkOutput(id);
    hook.features.push_back(pair.own);
  }
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize), job.teacher));
  return WithContext(EngineFromGraph(std::move(graph), options), job.teacher);
}

}  // namespace

Result<TeacherHook> TeacherOf(const TrainJob& job, const Graph& graph,
                              const LabelledSamples& samples) {
  TeacherHook hook;
  std::vector<size_t> places;
  EVOQ_ASSIGN(std::unique_ptr<Engine> loaded, LoadTeacher(job, graph, hook, places));
  const std::shared_ptr<Engine> engine = std::move(loaded);
  hook.run = [engine, places](std::span<const Tensor> inputs) -> Result<std::vector<Tensor>> {
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine->Run(inputs));
    std::vector<Tensor> taught;
    for (const size_t place : places) taught.push_back(outputs.at(place));
    return taught;
  };
  EVOQ_TRY(WithContext(hook.run(InputsOf(samples, 0)), job.teacher));
  return hook;
}

Status WriteModel(const Graph& graph, bool optimized_already, const std::string& path) {
  if (LowerExtension(path) != ".etm") return ExportOnnx(graph, path);
  Graph optimized = graph;
  if (!optimized_already) EVOQ_TRY(RunPasses(optimized, Stage::kOptimize));
  EVOQ_ASSIGN(const Model model, LowerAndPack(std::move(optimized)));
  return WriteEtm(model, path);
}

namespace {

QuantizeOptions WeightOptions(const TrainJob& job) {
  QuantizeOptions options;
  options.threads = job.threads > 0 ? job.threads : PhysicalCores();
  options.exclude = job.recipe.exclude;
  options.block = ParseWeightBlock(job.recipe.block).value_or(options.block);  // checked before
  return options;
}

// Weights become what the job's scheme makes of them.
Result<QuantizeReport> QuantizeWeightsOf(const TrainJob& job, Graph& graph) {
  const std::string float_bytes = std::to_string(FloatWeightBytes(graph));
  EVOQ_ASSIGN(QuantizeReport report,
              FindScheme(job.recipe.scheme)->run(graph, {}, WeightOptions(job)));
  graph.metadata["evoq.scheme"] = job.recipe.scheme;
  graph.metadata["evoq.float_weight_bytes"] = float_bytes;
  return report;
}

}  // namespace

Result<WeightRounder> PrepareWeights(const TrainJob& job, Graph& graph) {
  EVOQ_TRY(OptimizeForTraining(graph, 1));  // forms that gradients know: nothing is fused
  return WeightRounder::Create(graph, *FindScheme(job.recipe.scheme), WeightOptions(job));
}

Status QuantizeTrained(const TrainJob& job, const LabelledSamples& test, Graph& graph,
                       Trained& out) {
  EVOQ_ASSIGN(const QuantizeReport report, QuantizeWeightsOf(job, graph));
  out.weights = report.low_bit_weights;
  if (report.int8_weights > 0) out.weights["int8"] += report.int8_weights;
  if (test.count() == 0) return {};
  EVOQ_ASSIGN(out.written, MeasureAccuracy(graph, test, job.threads));
  return {};
}

Status PrepareAdapters(const TrainJob& job, Graph& graph, Trained& out) {
  EVOQ_TRY(OptimizeForTraining(graph, 1));  // forms that gradients know: nothing is fused
  if (!job.recipe.scheme.empty()) EVOQ_TRY(QuantizeWeightsOf(job, graph));
  EVOQ_ASSIGN(const LoraSettings settings, ParseLora(job.recipe.lora));
  EVOQ_ASSIGN(out.adapters, BeginAdapters(graph, settings, job.recipe.seed));
  for (const LoraAdapter& adapter : AdaptersOf(graph).adapters)
    out.adapter_numbers += adapter.a.elements() + adapter.b.elements();
  return {};
}

Status WriteAdapted(const TrainJob& job, Graph graph) {
  if (LowerExtension(job.output).empty()) {
    LoraAdapters adapters = AdaptersOf(graph);
    adapters.base = job.model;
    return WriteAdapters(adapters, job.output);
  }
  EVOQ_ASSIGN(const LoraSettings settings, ParseLora(job.recipe.lora));
  if (settings.merge) EVOQ_TRY(MergeAdapters(graph));
  return WriteModel(graph, /*optimized_already=*/false, job.output);
}

}  // namespace evoq
