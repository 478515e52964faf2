#include "workflow/prune.h"

#include "base/file.h"
#include "base/printable.h"
#include "base/text.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "report/table.h"

namespace evoq {

Result<PrunedModel> Prune(const PruneJob& job, const Follow& follow) {
  PrunedModel out{.model = job.model, .output = job.output};
  EVOQ_ASSIGN(out.rows, CheckPruneOptions(job.options));
  if (LowerExtension(job.output) != ".onnx")
    return Fail(ErrorCode::kUsage, "-o {}: expected a name that ends in .onnx", job.output);
  EVOQ_TRY(CheckOutputPath(job.output));
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(Graph graph, ImportModel(job.model));
  EVOQ_TRY(follow.At("pruning", 0));
  EVOQ_ASSIGN(out.report, WithContext(PruneGraph(graph, job.options), job.model));
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(ExportOnnx(graph, job.output));
  return out;
}

Told Tell(const PrunedModel& pruned) {
  using nlohmann::json;
  const PruneReport& report = pruned.report;
  const PrunePattern& pattern = *pruned.rows.pattern;
  Told told;
  json layers = json::array(), left = json::array();
  TextTable table({"layer", ">weights", ">zeros", ">blocks left", ">of"});
  for (const PrunedLayer& l : report.layers) {
    layers.push_back({{"node", l.node},
                      {"weight", l.weight},
                      {"weights", l.weights},
                      {"zeros_before", l.zeros_before},
                      {"zeros", l.zeros},
                      {"blocks", l.blocks},
                      {"blocks_left", l.kept}});
    table.Row({l.node, std::to_string(l.weights), fmt::format("{:.1f}%", 100 * l.sparsity()),
               std::to_string(l.kept), std::to_string(l.blocks)});
  }
  for (const auto& [node, why] : report.left) left.push_back({{"node", node}, {"why", why}});
  const double share = report.weights == 0 ? 0 : double(report.zeros) / double(report.weights);
  told.json = {{"model", pruned.model},
               {"output", pruned.output},
               {"pattern", pattern.name},
               {"score", pruned.rows.score->name},
               {"sparsity", share},
               {"weights", report.weights},
               {"zeros", report.zeros},
               {"skipped_by", pattern.kernels == nullptr ? json() : json(pattern.kernels)},
               {"layers", layers},
               {"left", left}};
  told.text = FormatPrintable("{}: {} of {} weights are 0 ({:.1f}%) in {} layers\n", pruned.model,
                              report.zeros, report.weights, 100 * share, report.layers.size());
  told.text += table.ToString();
  if (!report.left.empty()) {
    told.text += fmt::format("left as they were: {}\n", report.left.size());
    for (const auto& [node, why] : report.left)
      told.text += FormatPrintable("  {}: {}\n", node, why);
  }
  told.text +=
      pattern.kernels != nullptr
          ? fmt::format("after `evoq quantize`, {} skip blocks that are 0\n", pattern.kernels)
          : fmt::format(
                "evoq has no kernels that skip the zeros of {}: the model is no "
                "faster and no smaller for them\n",
                pattern.name);
  told.text += FormatPrintable("  -> {}\n", pruned.output);
  return told;
}

}  // namespace evoq
