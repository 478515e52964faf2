#include "foreign/profiles/trtexec_export.h"

#include "base/text.h"
#include "ops/op.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

// In trtexec's words: the processor's memory, or that of another backend.
const char* LocationOf(const Program& program, ValueId id) {
  const auto at = static_cast<size_t>(id.index);
  const bool host = at >= program.placements.size() || program.placements[at].space == &kHostMemory;
  return host ? "Host" : "Device";
}

json TensorJson(const Program& program, ValueId id) {
  const Value& value = program.graph->value(id);
  json dims = json::array();
  if (value.type.shape.is_static()) dims = value.type.shape.sizes();
  const std::string quantized = value.type.quantized() ? " quantized" : "";
  return {{"Name", value.name},
          {"Location", LocationOf(program, id)},
          {"Dimensions", dims},
          {"Format/Datatype",
           fmt::format("Row major linear {}{}", DTypeName(value.type.dtype), quantized)}};
}

json LayerJson(const Program& program, const Step& step) {
  const Node& node = program.graph->node(step.node);
  json inputs = json::array(), outputs = json::array();
  for (ValueId id : node.inputs) {
    if (id.valid() && !program.graph->value(id).is_constant())
      inputs.push_back(TensorJson(program, id));
  }
  for (ValueId id : node.outputs) {
    if (id.valid()) outputs.push_back(TensorJson(program, id));
  }
  json layer = {{"Name", node.name},
                {"LayerType", node.op},
                {"Inputs", inputs},
                {"Outputs", outputs},
                {"ParameterType", node.op},
                {"TacticName", step.decision.kernel},
                {"Precision", PrecisionName(step.decision.precision)}};
  if (QuantizesOrDequantizes(FindOp(node))) layer["Origin"] = "QDQ";
  if (node.inputs.size() > 1 && node.input(1).valid() &&
      program.graph->value(node.input(1)).is_constant()) {
    const TensorType& weight = program.graph->value(node.input(1)).type;
    layer["Weights"] = {{"Type", DTypeName(weight.dtype)},
                        {"Count", weight.shape.elements().value_or(0)}};
  }
  return layer;
}

// Of the sum of all steps, as the times beside it: means over all runs.
double Percentage(const StepProfile& profile, const StepTime& step) {
  double sum = 0;
  for (const StepTime& s : profile.steps) sum += s.mean_ms;
  return sum > 0 ? 100 * step.mean_ms / sum : 0;
}

}  // namespace

json TimesAsTrtexec(const RunTimes& times) {
  json out = json::array();
  for (const RunSpan& span : times.spans) {
    const double end = span.start_ms + span.ms;
    out.push_back({{"startEnqMs", span.start_ms},
                   {"endEnqMs", end},
                   {"startH2dMs", span.start_ms},
                   {"endH2dMs", span.start_ms},
                   {"startComputeMs", span.start_ms},
                   {"endComputeMs", end},
                   {"startD2hMs", end},
                   {"endD2hMs", end},
                   {"h2dMs", 0},
                   {"computeMs", span.ms},
                   {"d2hMs", 0},
                   {"latencyMs", span.ms}});
  }
  return out;
}

json ProfileAsTrtexec(const StepProfile& profile) {
  json out = json::array();
  out.push_back({{"count", profile.runs}});
  for (const StepTime& s : profile.steps)
    out.push_back({{"name", s.name},
                   {"timeMs", s.mean_ms * static_cast<double>(profile.runs)},
                   {"averageMs", s.mean_ms},
                   {"medianMs", s.median_ms},
                   {"percentage", Percentage(profile, s)}});
  return out;
}

json LayersAsTrtexec(const Program& program, bool detailed) {
  json layers = json::array(), bindings = json::array();
  for (const Step& step : program.steps) {
    if (detailed) {
      layers.push_back(LayerJson(program, step));
    } else {
      layers.push_back(program.graph->node(step.node).name);
    }
  }
  for (ValueId id : program.graph->inputs()) bindings.push_back(program.graph->value(id).name);
  for (ValueId id : program.graph->outputs()) bindings.push_back(program.graph->value(id).name);
  return {{"Layers", layers}, {"Bindings", bindings}};
}

std::string ProfileText(const StepProfile& profile) {
  TextTable table({">Time(ms)", ">Avg.(ms)", ">Median(ms)", ">Time(%)", "Layer"});
  double total = 0, mean = 0, median = 0;
  for (const StepTime& s : profile.steps) {
    const double time = s.mean_ms * static_cast<double>(profile.runs);
    total += time;
    mean += s.mean_ms;
    median += s.median_ms;
    table.Row({fmt::format("{:.2f}", time), fmt::format("{:.4f}", s.mean_ms),
               fmt::format("{:.4f}", s.median_ms), fmt::format("{:.1f}", Percentage(profile, s)),
               s.name});
  }
  table.Row({fmt::format("{:.2f}", total), fmt::format("{:.4f}", mean),
             fmt::format("{:.4f}", median), "100.0", "Total"});
  return fmt::format("=== Profile ({} iterations ) ===\n", profile.runs) + table.ToString();
}

}  // namespace evoq
