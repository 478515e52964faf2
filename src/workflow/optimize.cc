#include "workflow/optimize.h"

#include "base/file.h"
#include "base/printable.h"
#include "llm/adapter.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "passes/pass.h"
#include "workflow/models.h"

namespace evoq {

Result<Optimized> Optimize(const OptimizeJob& job, const Follow& follow) {
  EVOQ_TRY(CheckEnding(job.output, /*onnx=*/true));
  EVOQ_TRY(CheckOutput(job.output, {job.model}));
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(Graph graph, ImportModel(job.model));
  Optimized out{.model = job.model, .output = job.output};
  if (job.merge_adapters) {
    EVOQ_ASSIGN(const int merged, WithContext(MergeAdapters(graph), job.model));
    if (merged == 0)
      return Fail(ErrorCode::kUsage, "--merge-adapters: {} has no adapters", job.model);
  }
  out.nodes_before = graph.order().size();
  PassOptions options;
  options.stop_after = job.stop_after;
  options.log = [&](const PassDef& pass, int changes, const Graph& now) {
    if (changes == 0) return;
    out.passes.push_back({pass.name, changes, now.order().size()});
    if (job.log) job.log(out.passes.back());
  };
  EVOQ_TRY(follow.At("optimizing", 0));
  if (job.deployment) {
    EVOQ_TRY(WithContext(ShapeInterface(*job.deployment, graph), job.model));
    EVOQ_TRY(WithContext(ChoosePasses(graph, job.deployment->passes), job.model));
    out.notes = job.deployment->notes;
  }
  EVOQ_TRY(ChoosePasses(graph, job.passes));
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize, options), job.model));
  if (job.deployment) Finish(*job.deployment, graph);
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(ExportOnnx(graph, job.output));
  out.nodes_after = graph.order().size();
  return out;
}

Told Tell(const Optimized& optimized) {
  Told told;
  nlohmann::json passes = nlohmann::json::array();
  for (const PassRun& run : optimized.passes)
    passes.push_back({{"pass", run.pass}, {"changes", run.changes}, {"nodes", run.nodes}});
  told.json = {{"nodes_before", optimized.nodes_before},
               {"nodes_after", optimized.nodes_after},
               {"passes", passes}};
  if (!optimized.notes.empty()) told.json["notes"] = optimized.notes;
  for (const std::string& note : optimized.notes) told.log.push_back("note: " + note);
  told.text = FormatPrintable("{}: {} nodes -> {} -> {}\n", optimized.model, optimized.nodes_before,
                              optimized.nodes_after, optimized.output);
  return told;
}

}  // namespace evoq
