#include "serve/status_page.h"

#include "base/file.h"
#include "base/version.h"
#include "report/page.h"

// EVOQ_STATUS_HTML is the path of a file, given by the build.
__asm__(
    ".section .rodata\n"
    ".globl evoq_status_html_begin\nevoq_status_html_begin:\n.incbin \"" EVOQ_STATUS_HTML
    "\"\n"
    ".globl evoq_status_html_end\nevoq_status_html_end:\n.byte 0\n"
    ".text\n");
extern "C" const char evoq_status_html_begin[], evoq_status_html_end[];

namespace evoq::serve {
namespace {

using nlohmann::json;

json HistoryOf(const std::vector<HistorySlice>& slices) {
  json history = {{"slice_s", kSliceSeconds},
                  {"per_second", json::array()},
                  {"failures_per_second", json::array()},
                  {"p50_ms", json::array()},
                  {"p99_ms", json::array()}};
  const auto per_second = [](uint32_t count) {
    return static_cast<double>(count) / static_cast<double>(kSliceSeconds);
  };
  for (const HistorySlice& slice : slices) {
    history["per_second"].push_back(per_second(slice.success));
    history["failures_per_second"].push_back(per_second(slice.failure));
    // Of no request there is no time.
    const auto ms = [&](double share) {
      return slice.success > 0 ? json(1e3 * slice.Quantile(share)) : json();
    };
    history["p50_ms"].push_back(ms(0.5));
    history["p99_ms"].push_back(ms(0.99));
  }
  return history;
}

// The share of the requests that took at most so long.
json LatencyOf(const StatisticsRead& read) {
  json latency = {{"ms", json::array()}, {"share", json::array()}};
  uint64_t below = 0;
  for (size_t i = 0; i < kLatencyBounds.size() && read.success.count > 0; ++i) {
    below += read.latency[i];
    latency["ms"].push_back(1e3 * kLatencyBounds[i]);
    latency["share"].push_back(static_cast<double>(below) /
                               static_cast<double>(read.success.count));
  }
  return latency;
}

json ShadowOf(const ServedModel& model, const ShadowRead& shadow) {
  if (model.settings().shadow.empty()) return nullptr;
  json told = {{"model", model.settings().shadow},
               {"requests", shadow.requests},
               {"skipped", shadow.skipped},
               {"speedup", nullptr},
               {"agreement", nullptr}};
  if (shadow.own_ns > 0) told["speedup"] = shadow.other_ns / shadow.own_ns;
  if (shadow.rows > 0)
    told["agreement"] = static_cast<double>(shadow.agreed) / static_cast<double>(shadow.rows);
  return told;
}

json GearsOf(const ServedModel& model) {
  const std::optional<GearReport> report = model.gears();
  if (!report) return nullptr;
  return {{"declared", report->gears},
          {"ready", report->ready},
          {"hits", report->hits()},
          {"padded", report->padded},
          {"misses", report->misses},
          {"miss_ms", report->miss_ms},
          {"worst_miss_ms", report->worst_miss_ms}};
}

json VersionOf(const ServedModel& model) {
  const StatisticsRead read = model.statistics().Read();
  const auto mean_ms = [](const Duration& d) {
    return d.count > 0 ? json(static_cast<double>(d.ns) * 1e-6 / static_cast<double>(d.count))
                       : json();
  };
  return {{"name", model.name()},
          {"version", model.version()},
          {"platform", "evoq" + LowerExtension(model.path())},
          {"file_bytes", model.file_bytes()},
          {"ledger", model.ledger()},
          {"instances", model.settings().instances},
          {"max_batch", model.max_batch()},
          {"queued", model.queued()},
          {"running", model.running()},
          {"success", read.success.count},
          {"failures", read.failures},
          {"samples", read.samples},
          {"runs", read.executions},
          {"mean_ms", mean_ms(read.success)},
          {"queue_ms", mean_ms(read.queue)},
          {"infer_ms", mean_ms(read.infer)},
          {"latency", LatencyOf(read)},
          {"history", HistoryOf(model.statistics().History())},
          {"gears", GearsOf(model)},
          {"shadow", ShadowOf(model, read.shadow)}};
}

}  // namespace

json StatusOf(const Repository& repository, const ServerCounts* counts, bool ready) {
  json models = json::array(), missing = json::array();
  for (const auto& model : repository.All()) models.push_back(VersionOf(*model));
  for (const IndexEntry& entry : repository.Index()) {
    if (!entry.ready || !entry.reason.empty())
      missing.push_back({{"name", entry.name}, {"reason", entry.reason}, {"served", entry.ready}});
  }
  json status = {{"version", EVOQ_VERSION},
                 {"ready", ready},
                 {"models", std::move(models)},
                 {"missing", std::move(missing)}};
  if (counts != nullptr)
    status["server"] = {{"connections", counts->connections.load()},
                        {"refused", counts->refused.load()},
                        {"requests", counts->requests.load()},
                        {"body_bytes", counts->body_bytes.load()}};
  return status;
}

std::string PageOfStatus(const json& data) {
  std::string page(evoq_status_html_begin, evoq_status_html_end);
  ReplaceMark(page, "@DATA@", ScriptText(data));
  return page;
}

}  // namespace evoq::serve
