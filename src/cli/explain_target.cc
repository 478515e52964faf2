#include "cli/explain_target.h"

#include <algorithm>

#include "base/file.h"
#include "certify/samples.h"
#include "cli/common.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "placement/qdq.h"
#include "report/placement_text.h"

namespace evoq {

using nlohmann::json;

namespace {

Result<const Runtime*> RuntimeNamed(const std::string& name) {
  if (const Runtime* runtime = FindRuntime(name)) return runtime;
  std::string names;
  for (const Runtime* runtime : AllRuntimes())
    names += (names.empty() ? "" : ", ") + std::string(runtime->name);
  return Fail(ErrorCode::kUsage, "--target {}: expected {}", name, names);
}

// The range of the first pair behind an input: what the model was quantized for.
const TensorType* GridBehind(const Graph& graph, ValueId input) {
  for (NodeId user : graph.value(input).users) {
    const TensorType* grid = IsQuantize(graph.node(user)) ? GridOf(graph, user) : nullptr;
    if (grid != nullptr && grid->quant->per_tensor()) return grid;
  }
  return nullptr;
}

// Random inputs over the range that each input is quantized to, [-1, 1) where it is not.
Result<Samples> RandomSamples(const Graph& graph, const InputShapes& shapes, int64_t count) {
  Graph bound = graph;
  EVOQ_TRY(BindShapes(bound, shapes));
  EVOQ_ASSIGN(Samples samples, RandomInputs(bound, {}, count));
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const TensorType* grid = GridBehind(graph, graph.inputs()[i]);
    if (grid == nullptr || graph.value(graph.inputs()[i]).type.dtype != DType::kFloat32) continue;
    const auto low = static_cast<float>(LowOf(*grid)),
               width = static_cast<float>(HighOf(*grid) - LowOf(*grid));
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
  EVOQ_ASSIGN(const InputShapes shapes, ParseShapes(job.shapes));
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
  return compared;
}

// The reference evaluator on the samples.
std::function<Result<SampleOutputs>(const Graph&)> RunReference(const Samples& samples) {
  return [&samples](const Graph& graph) -> Result<SampleOutputs> {
    SampleOutputs outputs;
    for (const std::vector<Tensor>& inputs : samples.inputs) {
      EVOQ_ASSIGN(outputs.emplace_back(), EvaluateGraph(graph, inputs));
    }
    return outputs;
  };
}

}  // namespace

Result<json> ExplainTarget(const TargetJob& job) {
  const auto& [model, target, fix, output, accept_changes, data, shapes, preprocess] = job;
  EVOQ_ASSIGN(const Runtime* runtime, RuntimeNamed(target));
  if (LowerExtension(model) != ".onnx")
    return Fail(ErrorCode::kUsage, "{}: --target takes an .onnx file", model);
  if (fix != !output.empty())
    return Fail(ErrorCode::kUsage, "--fix and -o go together: --fix -o FIXED.onnx");
  if (!fix && (accept_changes || !data.empty() || !preprocess.empty()))
    return Fail(ErrorCode::kUsage, "--accept-changes, --data and --preprocess are for --fix");
  if (fix && LowerExtension(output) != ".onnx")
    return Fail(ErrorCode::kUsage, "-o {}: expected an .onnx file", output);
  if (fix) EVOQ_TRY(CheckOutputPath(output));
  EVOQ_ASSIGN(Graph graph, ImportOnnx(model));
  const Examination before = Examine(graph, *runtime);
  Out("{}", Lines{ToText(graph, before)});
  json out = ToJson(graph, before);
  out["model"] = model;
  if (!fix) return out;
  RepairOptions options;
  options.accept_changes = accept_changes;
  Result<Compared> compared = SamplesToCompare(job, graph);
  if (compared) {
    options.run = RunReference(compared->samples);
  } else if (!accept_changes || !data.empty()) {
    return WithContext(Result<json>(tl::unexpected(std::move(compared.error()))),
                       "the outputs before and after the repairs cannot be compared (--shape and "
                       "--data name inputs, --accept-changes repairs without)");
  }
  EVOQ_ASSIGN(const Repairs repairs, RepairPlacement(graph, *runtime, options));
  const Examination after = Examine(graph, *runtime);
  EVOQ_TRY(ExportOnnx(graph, output));
  const std::string on = compared ? compared->on : "";
  Out("\n{}\nafterwards, {}wrote {}\n", Lines{ToText(repairs, on)}, Lines{ToText(graph, after)},
      output);
  out["repairs"] = ToJson(repairs.repairs);
  out["output_changes"] = ToJson(repairs.changes);
  out["compared_on"] = compared ? json(on) : json();
  out["fixed"] = ToJson(graph, after);
  out["output"] = output;
  return out;
}

}  // namespace evoq
