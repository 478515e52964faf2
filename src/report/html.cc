#include <algorithm>
#include <cstdint>
#include <map>

#include "base/version.h"
#include "report/page.h"
#include "report/page_data.h"

// EVOQ_REPORT_HTML and EVOQ_CHART_JS are paths of files, given by the build.
__asm__(
    ".section .rodata\n"
    ".globl evoq_report_html_begin\nevoq_report_html_begin:\n.incbin \"" EVOQ_REPORT_HTML
    "\"\n"
    ".globl evoq_report_html_end\nevoq_report_html_end:\n.byte 0\n"
    ".globl evoq_chart_js_begin\nevoq_chart_js_begin:\n.incbin \"" EVOQ_CHART_JS
    "\"\n"
    ".globl evoq_chart_js_end\nevoq_chart_js_end:\n.byte 0\n"
    ".text\n");
extern "C" const char evoq_report_html_begin[], evoq_report_html_end[], evoq_chart_js_begin[],
    evoq_chart_js_end[];

namespace evoq {
namespace {

using nlohmann::json;

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

json ModelJson(const ReportModel& model) {
  json profile = ToJson(model.profile);
  const std::vector<Step>& steps = model.program->steps;
  for (size_t i = 0; i < steps.size() && i < profile["steps"].size(); ++i)
    profile["steps"][i]["why"] = steps[i].decision.float_reason.sentence;
  json out = {{"name", model.name},
              {"file_bytes", model.file_bytes},
              {"p50_ms", model.profile.total_ms},
              {"profile", profile},
              {"memory",
               {{"arena_bytes", model.arena_bytes},
                {"planned_bytes", model.program->arena_bytes()},
                {"live_bytes", LiveBytes(*model.program)}}}};
  if (model.top1)
    out["accuracy"] = {{"top1", model.top1->value},
                       {"low", model.top1->low},
                       {"high", model.top1->high},
                       {"samples", model.samples}};
  return out;
}

}  // namespace

std::vector<int64_t> LiveBytes(const Program& program) {
  const Graph& graph = *program.graph;
  std::map<int32_t, size_t> step_of;  // by NodeId::index; views have none
  for (size_t s = 0; s < program.steps.size(); ++s) step_of[program.steps[s].node.index] = s;
  // A view's output lives where its input does: both are one span.
  std::vector<int32_t> root(program.placements.size());
  for (size_t v = 0; v < root.size(); ++v) root[v] = static_cast<int32_t>(v);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (step_of.count(id.index) || node.inputs.empty() || !node.input(0).valid()) continue;
    for (ValueId y : node.outputs) {
      if (y.valid()) root[y.index] = root[node.input(0).index];
    }
  }
  struct Span {
    int64_t begin = INT64_MAX, end = 0;
    size_t first = SIZE_MAX, last = 0;
  };
  std::map<int32_t, Span> spans;  // by root
  for (size_t v = 0; v < root.size(); ++v) {
    const Placement& place = program.placements[v];
    if (place.kind != Placement::Kind::kArena) continue;
    const Value& value = graph.value(ValueId{static_cast<int32_t>(v)});
    Span& span = spans[root[v]];
    span.begin = std::min(span.begin, place.offset);
    span.end = std::max(span.end, place.offset + value.type.bytes().value_or(0));
    const auto touch = [&](NodeId node) {
      const auto it = step_of.find(node.index);
      if (it == step_of.end()) return;
      span.first = std::min(span.first, it->second);
      span.last = std::max(span.last, it->second);
    };
    if (value.producer.valid()) touch(value.producer);
    for (NodeId user : value.users) touch(user);
  }
  std::vector<int64_t> live(program.steps.size());
  for (size_t s = 0; s < live.size(); ++s) {
    std::vector<std::pair<int64_t, int64_t>> held;
    for (const auto& [v, span] : spans) {
      if (span.first <= s && s <= span.last) held.emplace_back(span.begin, span.end);
    }
    std::sort(held.begin(), held.end());
    int64_t reached = 0;  // a step that works in place holds one piece of the arena for two values
    for (const auto& [begin, end] : held) {
      live[s] += std::max<int64_t>(0, end - std::max(begin, reached));
      reached = std::max(reached, end);
    }
  }
  return live;
}

json ReportData(const Report& report) {
  const Limits& limits = report.limits;
  json data = {{"version", EVOQ_VERSION},
               {"models", json::array({ModelJson(report.model)})},
               {"limits",
                {{"cpu", limits.cpu},
                 {"isa", IsaName(limits.isa)},
                 {"threads", limits.threads},
                 {"int8_gops", limits.int8_gops},
                 {"fp32_gops", limits.fp32_gflops},
                 {"l3_read_gbps", limits.l3_read_gbps},
                 {"dram_read_gbps", limits.dram_read_gbps}}}};
  if (report.baseline) data["models"].push_back(ModelJson(*report.baseline));
  if (report.time) data["time"] = ToJson(*report.time);
  if (report.bytes) data["bytes"] = ToJson(*report.bytes);
  if (report.comparison) data["compare"] = ToJson(*report.comparison);
  return data;
}

std::string PageOf(const json& data) {
  std::string page(Between(evoq_report_html_begin, evoq_report_html_end));
  // The library first: the data may hold any text, also that of a mark.
  ReplaceMark(page, "@CHART@", Between(evoq_chart_js_begin, evoq_chart_js_end));
  ReplaceMark(page, "@DATA@", ScriptText(data));
  return page;
}

std::string ToHtml(const Report& report) { return PageOf(ReportData(report)); }

}  // namespace evoq
