// OpenVINO benchmark_app's report_type average_counters or detailed_counters:
//   {"avg_performance": {"nodes": [{"name", "status", "node_type", "exec_type", "real_time",
//   "cpu_time"}], ...}}
//   {"detailed_performance": [{"nodes": [...]}, ...]}; times in milliseconds
// and, beside it in the same folder, benchmark_report.json: {"execution_results":
// {"latency_median"}, ...}.
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/json_file.h"
#include "foreign/profiles/source.h"

namespace evoq {
namespace {

using nlohmann::json;

Conversion ConversionOf(const std::string& type) {
  if (type == "Reorder") return Conversion::kReformat;
  if (type == "FakeQuantize" || type == "QuantizeLinear") return Conversion::kQuantize;
  return type == "Convert" ? Conversion::kReformat : Conversion::kNone;
}

void AddNodes(const json& nodes, double weight, std::map<std::string, size_t>& index,
              ForeignRun& run) {
  for (const json& node : nodes) {
    if (JsonText(node, "status") != "EXECUTED") continue;
    const std::string name = JsonText(node, "name");
    const auto [it, is_new] = index.try_emplace(name, run.layers.size());
    if (is_new) {
      ForeignLayer layer;
      layer.name = name;
      layer.type = JsonText(node, "node_type");
      layer.where = JsonText(node, "exec_type");
      layer.precision = PrecisionIn(layer.where);
      layer.conversion = ConversionOf(layer.type);
      layer.group = GroupOf(layer.type, layer.type.empty() ? layer.name : "");
      layer.operators = {layer.name};
      run.layers.push_back(std::move(layer));
    }
    run.layers[it->second].ms += std::max(0.0, JsonNumber(node, "real_time")) * weight;
  }
}

// A number that the report may hold as text.
double Number(const json& object, const char* key) {
  const std::string text = JsonText(object, key);
  return text.empty() ? JsonNumber(object, key) : std::strtod(text.c_str(), nullptr);
}

void TakeSummary(const json& report, ForeignRun& run) {
  const auto results = report.find("execution_results");
  if (results != report.end()) run.end_to_end_ms = Number(*results, "latency_median");
  const auto setup = report.find("configuration_setup");
  if (setup != report.end()) run.device = JsonText(*setup, "target_device");
}

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const json report, ReadJsonFile(path));
  ForeignRun run;
  run.tool = "benchmark_app";
  run.path = path;
  std::map<std::string, size_t> index;
  if (report.is_object()) {
    if (const auto average = report.find("avg_performance"); average != report.end())
      AddNodes(JsonArray(*average, "nodes"), 1, index, run);
    const json& detailed = JsonArray(report, "detailed_performance");
    for (const json& one : detailed)
      AddNodes(JsonArray(one, "nodes"), 1.0 / static_cast<double>(detailed.size()), index, run);
    TakeSummary(report, run);
  }
  if (run.layers.empty())
    return InvalidInput(
        "{}: no executed nodes; expected what benchmark_app -json_stats -report_type "
        "average_counters writes "
        "(benchmark_average_counters_report.json with avg_performance.nodes)",
        path);
  const std::string summary =
      (std::filesystem::path(path).parent_path() / "benchmark_report.json").string();
  std::error_code code;
  if (run.end_to_end_ms == 0 && std::filesystem::exists(summary, code)) {
    EVOQ_ASSIGN(const json beside, ReadJsonFile(summary));
    if (beside.is_object()) TakeSummary(beside, run);
  }
  run.detailed = true;
  Summarize(run);
  return run;
}

}  // namespace

extern const ForeignSource kSourceBenchmarkApp = {
    .tool = "benchmark_app",
    .option = "--benchmark-app",
    .takes = "F",
    .doc = "Counters report written by OpenVINO's benchmark_app (JSON)",
    .read = Read,
};

}  // namespace evoq
