#include "foreign/profiles/diagnosis_text.h"

#include <algorithm>
#include <optional>

#include "base/brief.h"
#include "base/ms_text.h"
#include "base/printable.h"
#include "base/text.h"
#include "foreign/profiles/pairing.h"
#include "report/known.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

json RunJson(const ForeignRun& run) {
  json groups;
  for (int g = 0; g < kLayerGroups; ++g)
    groups[LayerGroupName(static_cast<LayerGroup>(g))] = run.GroupMs(static_cast<LayerGroup>(g));
  return {{"tool", run.tool},
          {"path", run.path},
          {"device", run.device},
          {"end_to_end_ms", Known(run.end_to_end_ms)},
          {"layer_sum_ms", run.layer_sum_ms},
          {"layers", run.layers.size()},
          {"weight_bytes", Known(run.weight_bytes)},
          {"note", run.note},
          {"groups", groups}};
}

std::string Headline(const char* label, const ForeignRun& run) {
  std::string out = FormatPrintable("{}: {} of {}{}{}: ", label, run.tool, run.path,
                                    run.device.empty() ? "" : " on ", run.device);
  if (run.end_to_end_ms > 0) out += fmt::format("{} ms end to end, ", MsText(run.end_to_end_ms));
  out += fmt::format("{} layer{}, {} ms in sum", run.layers.size(),
                     run.layers.size() == 1 ? "" : "s", MsText(run.layer_sum_ms));
  if (run.end_to_end_ms > 0 && run.layer_sum_ms > run.end_to_end_ms)
    out += fmt::format(" ({} is {} ms of it)", run.excess,
                       MsText(run.layer_sum_ms - run.end_to_end_ms));
  if (run.weight_bytes > 0) out += fmt::format(", weights {}", HumanBytes(run.weight_bytes));
  if (!run.note.empty()) out += "\n  note: " + run.note;
  return out + "\n";
}

std::string Brief(const std::string& text) {
  return text.size() > 48 ? text.substr(0, CharacterStart(text, 45)) + "..." : text;
}

std::string LayerList(const std::vector<std::string>& layers) {
  std::string out;
  constexpr size_t kShown = 4;
  for (size_t i = 0; i < layers.size() && i < kShown; ++i)
    out += (i ? ", " : "") + Brief(layers[i]);
  if (layers.size() > kShown) out += fmt::format(" and {} more", layers.size() - kShown);
  return out;
}

std::string GroupTable(const ForeignRun& run, const ForeignRun* baseline) {
  TextTable table(baseline ? std::vector<std::string>{"group", ">baseline ms", ">ms", ">delta ms"}
                           : std::vector<std::string>{"group", ">ms", ">share"});
  for (int g = 0; g < kLayerGroups; ++g) {
    const auto group = static_cast<LayerGroup>(g);
    const double ms = run.GroupMs(group);
    const double before = baseline ? baseline->GroupMs(group) : 0;
    if (ms == 0 && before == 0) continue;
    if (baseline) {
      table.Row({LayerGroupName(group), fmt::format("{:.3f}", before), fmt::format("{:.3f}", ms),
                 fmt::format("{:+.3f}", ms - before)});
    } else {
      table.Row({LayerGroupName(group), fmt::format("{:.3f}", ms),
                 fmt::format("{:.1f}%", 100 * ms / std::max(run.layer_sum_ms, 1e-9))});
    }
  }
  if (baseline)
    table.Row({"sum of layers", fmt::format("{:.3f}", baseline->layer_sum_ms),
               fmt::format("{:.3f}", run.layer_sum_ms),
               fmt::format("{:+.3f}", run.layer_sum_ms - baseline->layer_sum_ms)});
  return table.ToString();
}

// For each layer what the same one takes in the baseline, where it is sure which that is.
std::vector<std::optional<double>> BaselineTimes(const ForeignRun& run,
                                                 const ForeignRun* baseline) {
  std::vector<std::optional<double>> times(run.layers.size());
  if (baseline == nullptr) return times;
  const auto works = [](const ForeignLayer& layer) { return layer.type != kHostLayer; };
  const std::vector<Counterpart> pairs = PairLayers(run, works, *baseline, works);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].sure) times[i] = baseline->layers[*pairs[i].sure].ms;
  }
  return times;
}

// The layers that take most.
std::string SlowestLayers(const ForeignRun& run, const ForeignRun* baseline) {
  constexpr size_t kShown = 8;
  std::vector<size_t> order(run.layers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const size_t shown = std::min(kShown, order.size());
  std::ranges::partial_sort(
      order, order.begin() + static_cast<ptrdiff_t>(shown), [&](size_t a, size_t b) {
        return run.layers[a].ms != run.layers[b].ms ? run.layers[a].ms > run.layers[b].ms : a < b;
      });
  const auto before = BaselineTimes(run, baseline);
  std::vector<std::string> columns = {">ms", ">share"};
  if (baseline) columns.push_back(">baseline ms");
  for (const char* name : {"precision", "type", "slowest layers"}) columns.push_back(name);
  TextTable table(columns);
  for (size_t k = 0; k < shown; ++k) {
    const ForeignLayer& layer = run.layers[order[k]];
    std::vector<std::string> row = {
        fmt::format("{:.3f}", layer.ms),
        fmt::format("{:.1f}%", 100 * layer.ms / std::max(run.layer_sum_ms, 1e-9))};
    if (baseline) row.push_back(before[order[k]] ? fmt::format("{:.3f}", *before[order[k]]) : "");
    for (const std::string& text : {layer.precision, Brief(layer.type), Brief(layer.name)})
      row.push_back(text);
    table.Row(row);
  }
  return table.ToString();
}

json LayersJson(const ForeignRun& run, const ForeignRun* baseline) {
  const auto before = BaselineTimes(run, baseline);
  json out = json::array();
  for (size_t i = 0; i < run.layers.size(); ++i) {
    const ForeignLayer& layer = run.layers[i];
    out.push_back({{"name", layer.name},
                   {"type", layer.type},
                   {"group", LayerGroupName(layer.group)},
                   {"precision", layer.precision},
                   {"kernel", layer.where},
                   {"ms", layer.ms}});
    if (baseline) out.back()["baseline_ms"] = before[i] ? json(*before[i]) : json();
  }
  return out;
}

}  // namespace

json ToJson(const ForeignRun& run, const ForeignRun* baseline, const Diagnosis& diagnosis) {
  json out = RunJson(run);
  json findings = json::array(), causes = json::array();
  double lost = 0;
  for (const Finding& f : diagnosis.findings) {
    findings.push_back({{"code", f.rule->code},
                        {"ms", f.ms},
                        {"layers", f.layers},
                        {"sentence", f.rule->sentence},
                        {"fix", f.rule->fix},
                        {"source", f.rule->source}});
    if (!f.rule->doubt)
      causes.push_back({{"code", f.rule->code},
                        {"ms", f.ms},
                        {"steps", f.layers},
                        {"sentence", f.rule->sentence},
                        {"fix", f.rule->fix}});
    lost += f.ms;
  }
  out["findings"] = findings;
  out["layer_times"] = LayersJson(run, baseline);
  if (baseline == nullptr) return out;
  out["baseline"] = RunJson(*baseline);
  json delta;
  for (int g = 0; g < kLayerGroups; ++g) {
    const auto group = static_cast<LayerGroup>(g);
    delta[LayerGroupName(group)] = run.GroupMs(group) - baseline->GroupMs(group);
  }
  delta["layer_sum_ms"] = run.layer_sum_ms - baseline->layer_sum_ms;
  if (run.end_to_end_ms > 0 && baseline->end_to_end_ms > 0)
    delta["end_to_end_ms"] = run.end_to_end_ms - baseline->end_to_end_ms;
  else
    delta["end_to_end_ms"] = nullptr;
  out["delta"] = delta;
  causes.push_back({{"code", "kernel-below-ideal"},
                    {"ms", diagnosis.below_ideal_ms},
                    {"steps", json::array()},
                    {"sentence",
                     "The other layers against their time in the baseline, scaled by the bits they "
                     "could compute in."},
                    {"fix", ""}});
  out["time"] = {
      {"float_ms", baseline->layer_sum_ms},
      {"ideal_ms", diagnosis.ideal_ms},
      {"actual_ms", run.layer_sum_ms},
      {"causes", causes},
      {"unexplained_ms", run.layer_sum_ms - diagnosis.ideal_ms - diagnosis.below_ideal_ms - lost}};
  return out;
}

std::string ToText(const ForeignRun& run, const ForeignRun* baseline, const Diagnosis& diagnosis) {
  std::string out;
  if (baseline) out += Headline("baseline", *baseline);
  out += Headline(baseline ? "this run" : "run", run);
  if (baseline && run.end_to_end_ms > 0 && baseline->end_to_end_ms > 0) {
    const double ratio = baseline->end_to_end_ms / run.end_to_end_ms;
    out += ratio >= 1 ? fmt::format("{:.2f}x faster than the baseline\n", ratio)
                      : fmt::format("{:.1f}% slower than the baseline\n", 100 * (1 / ratio - 1));
  }
  out += "\n" + GroupTable(run, baseline) + "\n" + SlowestLayers(run, baseline) + "\n";
  if (!run.detailed && run.tool == "trtexec")
    out += "only names of layers are known: with --profilingVerbosity=detailed more can be told\n";
  if (run.tool == "benchmark_app")
    out +=
        "sizes and weights are not in counters: the execution graph that benchmark_app writes "
        "with -exec_graph_path tells more\n";
  if (diagnosis.findings.empty()) return out + "no known fault found\n";
  TextTable table({">ms lost", ">layers", "cause", "where"});
  for (const Finding& f : diagnosis.findings)
    table.Row({f.rule->doubt ? "?" : fmt::format("{:.3f}", f.ms), std::to_string(f.layers.size()),
               f.rule->code, LayerList(f.layers)});
  out += table.ToString();
  for (const Finding& f : diagnosis.findings)
    out += fmt::format("\n{}: {}\n  {}: {}\n  source: {}\n", f.rule->code, f.rule->sentence,
                       f.rule->doubt ? "to know" : fmt::format("fix ({:.3f} ms)", f.ms),
                       f.rule->fix, f.rule->source);
  return out;
}

}  // namespace evoq
