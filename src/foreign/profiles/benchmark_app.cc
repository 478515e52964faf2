// OpenVINO benchmark_app's report_type average_counters or detailed_counters, of the program in C++
// and of the one in Python, which writes numbers as text and "Status.EXECUTED":
//   {"avg_performance": {"nodes": [{"name", "status", "node_type", "exec_type", "real_time",
//   "cpu_time"}], ...}}
//   {"detailed_performance": [{"nodes": [...]}, ...]}; times in milliseconds
// without -json_stats the same as lines of fields between semicolons, a table for each run:
//   layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)
// -pcsort and the report type sort_detailed_counters write each node's share too ("%"), the longest
// first; Python's lines then have commas between their fields.
//
// Beside it in the same folder: benchmark_report.json or .csv, {"execution_results":
// {"latency_median"}, ...}; Python's and the lines' name for it is "latency (ms)".
#include "foreign/profiles/benchmark_app.h"

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/brief.h"
#include "base/file.h"
#include "base/json_file.h"
#include "foreign/profiles/number_text.h"
#include "foreign/profiles/source.h"

namespace evoq {
namespace {

using nlohmann::json;

Conversion ConversionOf(const std::string& type) {
  if (type == "Reorder") return Conversion::kReformat;
  if (type == "FakeQuantize" || type == "QuantizeLinear") return Conversion::kQuantize;
  return type == "Convert" ? Conversion::kReformat : Conversion::kNone;
}

struct Node {
  std::string name, status, type, kernel;
  double ms = 0;
};
// What a report holds: the nodes of each run, or of their mean.
struct Report {
  std::vector<std::vector<Node>> runs;
  double end_to_end_ms = 0;
  std::string device;
  bool sorted = false;  // by time
};

constexpr const char* kMedian[] = {"latency_median", "latency (ms)"};
constexpr const char* kDevice[] = {"target_device", "target device"};
constexpr std::string_view kHeader = "layerName";

// A number that the report may hold as text. Errors: kInvalidInput for what is none.
Result<double> Number(const json& object, const char* key) {
  const std::string text = JsonText(object, key);
  if (text.empty()) return JsonNumber(object, key);
  if (const auto number = NumberOf(text)) return *number;
  return InvalidInput("{} '{}', expected a number", key, Shorten(text));
}

Result<std::vector<Node>> NodesOf(const json& nodes) {
  std::vector<Node> out;
  for (const json& node : nodes) {
    const std::string name = JsonText(node, "name");
    EVOQ_ASSIGN(const double ms,
                WithContext(Number(node, "real_time"), fmt::format("node '{}'", Shorten(name))));
    out.push_back({name, JsonText(node, "status"), JsonText(node, "node_type"),
                   JsonText(node, "exec_type"), ms});
  }
  return out;
}

bool HasShares(const json& nodes) {
  return !nodes.empty() && nodes[0].is_object() && nodes[0].contains("%");
}

Result<Report> FromJson(const std::string& text) {
  EVOQ_ASSIGN(const json root, ParseJson(text));
  Report report;
  if (!root.is_object()) return report;
  if (const auto average = root.find("avg_performance"); average != root.end()) {
    EVOQ_ASSIGN(std::vector<Node> nodes, NodesOf(JsonArray(*average, "nodes")));
    report.runs.push_back(std::move(nodes));
    report.sorted = HasShares(JsonArray(*average, "nodes"));
  }
  for (const json& one : JsonArray(root, "detailed_performance")) {
    EVOQ_ASSIGN(std::vector<Node> nodes, NodesOf(JsonArray(one, "nodes")));
    report.runs.push_back(std::move(nodes));
    report.sorted = report.sorted || HasShares(JsonArray(one, "nodes"));
  }
  if (const auto results = root.find("execution_results"); results != root.end()) {
    for (const char* key : kMedian) {
      EVOQ_ASSIGN(const double ms, Number(*results, key));
      if (ms > 0) report.end_to_end_ms = ms;
    }
  }
  if (const auto setup = root.find("configuration_setup"); setup != root.end()) {
    for (const char* key : kDevice) {
      if (const std::string device = JsonText(*setup, key); !device.empty()) report.device = device;
    }
  }
  return report;
}

// The fields of a line, without quotes around them. Older versions end each with a separator.
std::vector<std::string> FieldsOf(const std::string& line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"' && separator == ',') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (fields.back().empty()) fields.pop_back();
  return fields;
}

Result<Report> FromLines(const std::string& text) {
  Report report;
  std::istringstream lines(text);
  int number = 0;
  char separator = ';';
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const bool header = line.starts_with(kHeader) && line.size() > kHeader.size();
    if (header) separator = line[kHeader.size()] == ',' ? ',' : ';';
    const std::vector<std::string> fields = FieldsOf(line, separator);
    if (header) {
      report.runs.emplace_back();
      report.sorted = report.sorted || line.find('%') != std::string::npos;
    } else if (fields.size() == 2) {
      const bool median = std::ranges::find(kMedian, fields[0]) != std::end(kMedian);
      if (median) report.end_to_end_ms = NumberOf(fields[1]).value_or(0);
      if (std::ranges::find(kDevice, fields[0]) != std::end(kDevice)) report.device = fields[1];
    } else if (fields.size() >= 6 && !report.runs.empty()) {
      const auto ms = NumberOf(fields[4]);
      if (!ms)
        return InvalidInput("line {}: realTime '{}', expected a number", number,
                            Shorten(fields[4]));
      report.runs.back().push_back({fields[0], fields[1], fields[2], fields[3], *ms});
    }  // others: the sum of all, headings, what other versions write besides
  }
  return report;
}

Result<Report> ReportOf(const std::string& path) {
  EVOQ_ASSIGN(std::string text, ReadTextFile(path));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // spreadsheets write it
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool is_json = begin != std::string::npos && (text[begin] == '{' || text[begin] == '[');
  const bool has_lines =
      text.find(';') != std::string::npos || text.find(kHeader) != std::string::npos;
  return WithContext(is_json || !has_lines ? FromJson(text) : FromLines(text), path);
}

// Bytes that the caller gives, an image say, are no sign of a model in integers: as many layers as
// there are such inputs may compute on them, none of which convolves or pools.
void ForgetBytesOfInputs(const Report& report, ForeignRun& run) {
  const auto is_bytes = [](const std::string& precision) { return BitsOf(precision) == 8; };
  std::set<std::string> inputs;
  for (const std::vector<Node>& nodes : report.runs) {
    for (const Node& node : nodes) {
      const bool input = node.type == "Parameter" || node.type == "Input";
      if (input && is_bytes(PrecisionIn(node.kernel))) inputs.insert(node.name);
    }
  }
  std::vector<ForeignLayer*> layers;
  for (ForeignLayer& layer : run.layers) {
    const bool moves = layer.group == LayerGroup::kElementwise || layer.group == LayerGroup::kOther;
    if (layer.conversion != Conversion::kNone || !is_bytes(layer.precision)) continue;
    if (!moves) return;
    layers.push_back(&layer);
  }
  if (layers.size() > inputs.size()) return;
  for (ForeignLayer* layer : layers) layer->precision.clear();
}

void AddNodes(const std::vector<Node>& nodes, double weight, std::map<std::string, size_t>& index,
              ForeignRun& run) {
  for (const Node& node : nodes) {
    if (node.status.substr(node.status.rfind('.') + 1) != "EXECUTED") continue;
    const auto [it, is_new] = index.try_emplace(node.name, run.layers.size());
    if (is_new) {
      ForeignLayer layer;
      layer.name = node.name;
      layer.type = node.type;
      layer.where = node.kernel;
      layer.precision = PrecisionIn(layer.where);
      // Bytes of a layer without a kernel, as an If, are its condition.
      if (layer.where.starts_with("unknown") && BitsOf(layer.precision) == 8)
        layer.precision.clear();
      layer.conversion = ConversionOf(layer.type);
      layer.group = GroupOf(layer.type, layer.type.empty() ? layer.name : "");
      layer.operators = {layer.name};
      run.layers.push_back(std::move(layer));
    }
    run.layers[it->second].ms += std::max(0.0, node.ms) * weight;
  }
}

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const Report report, ReportOf(path));
  ForeignRun run;
  run.tool = "benchmark_app";
  run.path = path;
  run.end_to_end_ms = report.end_to_end_ms;
  run.device = report.device;
  run.in_order = !report.sorted;
  // Both are of the same runs, a layer's time their mean.
  run.excess = "what slow runs, as the first one, add to the means";
  std::map<std::string, size_t> index;
  for (const std::vector<Node>& nodes : report.runs)
    AddNodes(nodes, 1.0 / static_cast<double>(report.runs.size()), index, run);
  if (run.layers.empty()) {
    size_t nodes = 0;
    for (const auto& one : report.runs) nodes += one.size();
    if (nodes > 0)
      return InvalidInput(
          "{}: none of its {} nodes was executed; Python's benchmark_app writes the first node "
          "alone with -json_stats -report_type average_counters: take detailed_counters, or leave "
          "out -json_stats",
          path, nodes);
    return InvalidInput(
        "{}: no executed nodes; expected what benchmark_app -report_type average_counters or "
        "detailed_counters writes (benchmark_average_counters_report.json with "
        "avg_performance.nodes, or .csv)",
        path);
  }
  EVOQ_TRY(TakeBenchmarkSummary(path, run));
  ForgetBytesOfInputs(report, run);
  run.detailed = true;
  Summarize(run);
  return run;
}

}  // namespace

Status TakeBenchmarkSummary(const std::string& path, ForeignRun& run) {
  for (const char* beside : {"benchmark_report.json", "benchmark_report.csv"}) {
    const std::string summary = (std::filesystem::path(path).parent_path() / beside).string();
    std::error_code code;
    if (run.end_to_end_ms > 0 || !std::filesystem::exists(summary, code)) continue;
    EVOQ_ASSIGN(const Report all, ReportOf(summary));
    run.end_to_end_ms = all.end_to_end_ms;
    if (!all.device.empty()) run.device = all.device;
  }
  return {};
}

extern const ForeignSource kSourceBenchmarkApp = {
    .tool = "benchmark_app",
    .option = "--benchmark-app",
    .takes = "F",
    .doc = "Counters report written by OpenVINO's benchmark_app (JSON or CSV)",
    .marks = {"layerName;execStatus", "layerName,execStatus", "\"avg_performance\"",
              "\"detailed_performance\""},
    .read = Read,
};

}  // namespace evoq
