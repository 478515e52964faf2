#include "workflow/prune.h"

#include "base/file.h"
#include "base/printable.h"
#include "base/text.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "report/table.h"
#include "workflow/models.h"

namespace evoq {

Result<PrunedModel> Prune(const PruneJob& job, const Follow& follow) {
  PrunedModel out{.model = job.model, .output = job.output};
  EVOQ_ASSIGN(out.rows, CheckPruneOptions(job.options));
  if (LowerExtension(job.output) != ".onnx")
    return Fail(ErrorCode::kUsage, "-o {}: expected a name that ends in .onnx", job.output);
  EVOQ_TRY(CheckOutput(job.output, {job.model}));
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(Graph graph, ImportModel(job.model));
  EVOQ_TRY(follow.At("pruning", 0));
  EVOQ_ASSIGN(out.report, WithContext(PruneGraph(graph, job.options), job.model));
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(ExportOnnx(graph, job.output));
  return out;
}

namespace {

// Of whole channels: what each product lost, and what the model needs now.
Told TellChannels(const PrunedModel& pruned) {
  using nlohmann::json;
  const PruneReport& report = pruned.report;
  Told told;
  json layers = json::array();
  TextTable table({"layer", ">channels", ">of", ">inputs", ">of", ">weights", ">of"});
  for (const PrunedChannels& l : report.channels) {
    layers.push_back({{"node", l.node},
                      {"weight", l.weight},
                      {"channels_before", l.outputs_before},
                      {"channels", l.outputs},
                      {"inputs_before", l.inputs_before},
                      {"inputs", l.inputs},
                      {"weights_before", l.weights_before},
                      {"weights", l.weights}});
    const auto inputs = [&](int64_t n) {
      return l.inputs_before > 0 ? std::to_string(n) : std::string();
    };
    table.Row({l.node, std::to_string(l.outputs), std::to_string(l.outputs_before),
               inputs(l.inputs), inputs(l.inputs_before), std::to_string(l.weights),
               std::to_string(l.weights_before)});
  }
  const auto number = [](const std::optional<int64_t>& n) { return n ? json(*n) : json(); };
  told.json = {{"model", pruned.model},
               {"output", pruned.output},
               {"pattern", pruned.rows.pattern->name},
               {"score", pruned.rows.score->name},
               {"sparsity", pruned.rows.sparsity},
               {"float_weight_bytes_before", report.bytes_before},
               {"float_weight_bytes", report.bytes},
               {"macs_before", number(report.macs_before)},
               {"macs", number(report.macs)},
               {"layers", layers}};
  told.text =
      FormatPrintable("{}: float32 weights {} -> {} ({:.3f})", pruned.model,
                      HumanBytes(report.bytes_before), HumanBytes(report.bytes),
                      double(report.bytes) / double(std::max<int64_t>(report.bytes_before, 1)));
  if (report.macs_before && report.macs)
    told.text += fmt::format(", multiply-accumulates {} -> {} ({:.3f})", *report.macs_before,
                             *report.macs, double(*report.macs) / double(*report.macs_before));
  told.text += "\n" + PrintableLines(table.ToString());
  return told;
}

// Of weights that are 0.
Told TellZeros(const PrunedModel& pruned) {
  using nlohmann::json;
  const PruneReport& report = pruned.report;
  const PrunePattern& pattern = *pruned.rows.pattern;
  Told told;
  json layers = json::array();
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
  const double share = report.weights == 0 ? 0 : double(report.zeros) / double(report.weights);
  told.json = {{"model", pruned.model},
               {"output", pruned.output},
               {"pattern", pattern.name},
               {"score", pruned.rows.score->name},
               {"sparsity", share},
               {"weights", report.weights},
               {"zeros", report.zeros},
               {"skipped_by", pattern.kernels == nullptr ? json() : json(pattern.kernels)},
               {"layers", layers}};
  told.text = FormatPrintable("{}: {} of {} weights are 0 ({:.1f}%) in {} layers\n", pruned.model,
                              report.zeros, report.weights, 100 * share, report.layers.size());
  told.text += table.ToString();
  return told;
}

// What skips the zeros of a pattern.
std::string TellKernels(const PrunePattern& pattern) {
  return pattern.kernels != nullptr
             ? fmt::format("after `evoq quantize`, {} skip blocks that are 0\n", pattern.kernels)
             : fmt::format(
                   "evoq has no kernels that skip the zeros of {}: the model is no "
                   "faster and no smaller for them\n",
                   pattern.name);
}

}  // namespace

Told Tell(const PrunedModel& pruned) {
  const PruneReport& report = pruned.report;
  const PrunePattern& pattern = *pruned.rows.pattern;
  Told told = pattern.channels ? TellChannels(pruned) : TellZeros(pruned);
  told.json["left"] = nlohmann::json::array();
  for (const auto& [node, why] : report.left)
    told.json["left"].push_back({{"node", node}, {"why", why}});
  if (!report.left.empty()) {
    told.text += fmt::format("left as they were: {}\n", report.left.size());
    for (const auto& [node, why] : report.left)
      told.text += FormatPrintable("  {}: {}\n", node, why);
  }
  if (!pattern.channels) told.text += TellKernels(pattern);
  told.text += FormatPrintable("  -> {}\n", pruned.output);
  return told;
}

}  // namespace evoq
