#include "workflow/explain_target.h"

#include <algorithm>

#include "base/file.h"
#include "base/printable.h"
#include "certify/samples.h"
#include "foreign/forecasts/forecast_text.h"
#include "foreign/forecasts/qdq.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "reference/reference.h"

namespace evoq {

namespace {

Result<const Runtime*> RuntimeNamed(const std::string& name) {
  if (const Runtime* runtime = FindRuntime(name)) return runtime;
  std::string names;
  for (const Runtime* runtime : AllRuntimes())
    names += (names.empty() ? "" : ", ") + std::string(runtime->name);
  if (name == "evoq")
    return Fail(ErrorCode::kUsage,
                "--target evoq: what evoq makes of a model is measured, without --target; expected "
                "{}",
                names);
  return Fail(ErrorCode::kUsage, "--target {}: expected {}", name, names);
}

// Random inputs over the range that each input is quantized to, [-1, 1) where it is not.
Result<Samples> RandomSamples(const Graph& graph, const InputShapes& shapes, int64_t count) {
  Graph bound = graph;
  EVOQ_TRY(BindShapes(bound, shapes));
  EVOQ_ASSIGN(Samples samples, RandomInputs(bound, {}, count));
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const TensorType* type = ReaderQuantType(graph, graph.inputs()[i]);
    if (type == nullptr || graph.value(graph.inputs()[i]).type.dtype != DType::kFloat32) continue;
    const auto low = static_cast<float>(LowOf(*type)),
               width = static_cast<float>(HighOf(*type) - LowOf(*type));
    for (std::vector<Tensor>& sample : samples.inputs) {
      for (int64_t k = 0; k < sample[i].elements(); ++k) {
        float& x = sample[i].mutable_data<float>()[k];
        x = low + (x + 1) / 2 * width;
      }
    }
  }
  return samples;
}

// What outputs are compared on, and how that is called.
struct Compared {
  Samples samples;
  std::string on;  // "4 random samples"
};

// As many samples as the reference evaluator, which is plain, runs within seconds.
int64_t MostSamples(const Graph& graph, const InputShapes& shapes) {
  constexpr int64_t kMostMacs = 2'000'000'000, kMost = 8;
  Graph bound = graph;
  if (!BindShapes(bound, shapes)) return 1;
  int64_t macs = 1;
  for (NodeId id : bound.order()) macs += NodeCost(bound, bound.node(id)).macs;
  return std::clamp<int64_t>(kMostMacs / macs, 1, kMost);
}

Result<Compared> SamplesToCompare(const TargetJob& job, const Graph& graph) {
  const InputShapes& shapes = job.shapes;
  const int64_t most = MostSamples(graph, shapes);
  Compared compared;
  if (job.data.empty()) {
    EVOQ_ASSIGN(compared.samples, RandomSamples(graph, shapes, most));
    compared.on = fmt::format("{} random sample{}", most, most == 1 ? "" : "s");
    return compared;
  }
  EVOQ_ASSIGN(const auto data, OpenData(job.data, graph, job.model, job.preprocess, ""));
  EVOQ_ASSIGN(compared.samples, LoadSamples(*data, most));
  compared.on = fmt::format("{} of the data's {} samples", compared.samples.size(), data->size());
  if (const std::string warning = data->warning(); !warning.empty())
    compared.on += fmt::format(" ({})", warning);
  return compared;
}

// The reference evaluator on the samples.
std::function<Result<SampleOutputs>(const Graph&)> RunReference(const Samples& samples,
                                                                const Follow& follow) {
  return [&](const Graph& graph) -> Result<SampleOutputs> {
    SampleOutputs outputs;
    for (const std::vector<Tensor>& inputs : samples.inputs) {
      EVOQ_TRY(follow.At("comparing outputs", static_cast<double>(outputs.size()) /
                                                  static_cast<double>(samples.size())));
      EVOQ_ASSIGN(outputs.emplace_back(), EvaluateGraph(graph, inputs));
    }
    return outputs;
  };
}

}  // namespace

Result<TargetForecast> ExplainTarget(const TargetJob& job, const Follow& follow) {
  EVOQ_ASSIGN(const Runtime* runtime, RuntimeNamed(job.target));
  if (LowerExtension(job.model) != ".onnx")
    return Fail(ErrorCode::kUsage, "{}: --target takes an .onnx file", job.model);
  if (job.fix != !job.output.empty())
    return Fail(ErrorCode::kUsage, "--fix and -o go together: --fix -o FIXED.onnx");
  if (!job.fix && (job.accept_changes || !job.data.empty() || !job.preprocess.empty()))
    return Fail(ErrorCode::kUsage, "--accept-changes, --data and --preprocess are for --fix");
  if (job.fix && LowerExtension(job.output) != ".onnx")
    return Fail(ErrorCode::kUsage, "-o {}: expected an .onnx file", job.output);
  std::vector<std::string> inputs = job.data;
  inputs.push_back(job.model);
  if (job.fix) EVOQ_TRY(CheckOutput(job.output, inputs));
  EVOQ_TRY(CheckSizes(job.shapes));
  EVOQ_TRY(follow.At("loading", 0));
  TargetForecast out;
  out.model = job.model;
  EVOQ_ASSIGN(out.graph, ImportModel(job.model));
  FoldQuantizedConstants(out.graph);
  out.before = Examine(out.graph, *runtime);
  if (!job.fix) return out;
  RepairOptions options;
  options.accept_changes = job.accept_changes;
  Result<Compared> compared = SamplesToCompare(job, out.graph);
  if (compared) {
    options.run = RunReference(compared->samples, follow);
  } else if (!job.accept_changes || !job.data.empty()) {
    return WithContext(Result<TargetForecast>(tl::unexpected(std::move(compared.error()))),
                       "the outputs before and after the repairs cannot be compared (--shape and "
                       "--data name inputs, --accept-changes repairs without)");
  }
  TargetForecast::Fixed fixed;
  fixed.output = job.output;
  fixed.graph = out.graph;
  if (compared) fixed.compared_on = compared->on;
  EVOQ_ASSIGN(fixed.repairs, RepairPlacement(fixed.graph, *runtime, options));
  fixed.after = Examine(fixed.graph, *runtime);
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(ExportOnnx(fixed.graph, job.output));
  out.fixed = std::move(fixed);
  return out;
}

Told Tell(const TargetForecast& forecast) {
  Told told;
  told.json = ToJson(forecast.graph, forecast.before);
  told.json["model"] = forecast.model;
  told.text = PrintableLines(ToText(forecast.graph, forecast.before));
  if (!forecast.fixed) return told;
  const TargetForecast::Fixed& fixed = *forecast.fixed;
  const bool made = std::ranges::any_of(fixed.repairs.repairs, &Repair::made);
  told.text += FormatPrintable("\n{}\n", Lines{ToText(fixed.repairs, fixed.compared_on)});
  if (made)
    told.text += FormatPrintable("afterwards, {}wrote {}\n",
                                 Lines{ToText(fixed.graph, fixed.after)}, fixed.output);
  else
    told.text +=
        FormatPrintable("nothing was repaired: wrote {}, a copy of the model\n", fixed.output);
  told.json["repaired"] = made;
  told.json["repairs"] = ToJson(fixed.repairs.repairs);
  told.json["output_changes"] = ToJson(fixed.repairs.changes);
  told.json["compared_on"] =
      fixed.compared_on.empty() ? nlohmann::json() : nlohmann::json(fixed.compared_on);
  told.json["fixed"] = ToJson(fixed.graph, fixed.after);
  told.json["output"] = fixed.output;
  return told;
}

}  // namespace evoq
