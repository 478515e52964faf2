// Plants faults that cost time or bytes in models, measures what each truly costs (the model with it against the model without it,
// run in turn), lets `explain` explain the faulty model, and compares.
//   evoq_planted_faults [--threads N] [--duration-s D] [--only TEXT] [--json FILE]
// Exit code 1 when a cause is named at less than 85% or more than 115% of the true cost, or the ledger does not add up.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "bench/fault_models.h"
#include "cli/common.h"
#include "cli/explain.h"
#include "report/explain_rule.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Settings {
  int threads = 1;
  double duration_s = 3;
  std::string only, json_path;
  std::filesystem::path folder;
};

struct Outcome {
  std::string model, fault, code, unit;
  double truth = 0, explained = 0;    // ms or bytes
  double unexplained = 0, gap = 0, total = 0;  // of the ledger
  json ledger;

  double ratio() const { return truth > 0 ? explained / truth : 0; }
  bool holds() const {
    const double rest = std::fabs(unexplained);
    return ratio() >= 0.85 && ratio() <= 1.15 && (unit == "bytes" ? rest == 0 : rest <= 0.03 * gap || rest <= 0.01 * total);
  }
};

// 1 ms of the caller's own time: busy, as decoding would be.
void HostDelay() {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + std::chrono::milliseconds(1); Clock::now() < end;) {
  }
}

// Milliseconds that `faulty` takes above `sound`; `host` is what the caller does for each of the former's runs. The mean over rounds with
// fresh executors: where memory lies is luck.
Result<double> TrueCost(const Settings& s, const std::string& sound, const std::string& faulty, const std::function<void()>& host) {
  constexpr int kRounds = 4;
  EVOQ_ASSIGN(const auto a, LoadEngine(sound, s.threads));
  EVOQ_ASSIGN(const auto b, LoadEngine(faulty, s.threads));
  EVOQ_ASSIGN(Executor* const sound_executor, a->Default());
  EVOQ_ASSIGN(Executor* const faulty_executor, b->Default());
  MeasureOptions options;
  options.warmup_ms = 50;
  options.duration_s = s.duration_s / kRounds;
  options.host = host;
  double cost = 0;
  for (int round = 0; round < kRounds; ++round) {
    EVOQ_ASSIGN(const auto ea, sound_executor->Another());
    EVOQ_ASSIGN(const auto eb, faulty_executor->Another());
    Executor* const executors[] = {ea.get(), eb.get()};
    RunBuffers buffers[] = {MakeBuffers(*ea), MakeBuffers(*eb)};
    EVOQ_ASSIGN(const auto profiles, MeasureStepsInterleaved(executors, buffers, Limits(), options));
    cost += (profiles[1].total_ms - profiles[0].total_ms) / kRounds;
  }
  return cost;
}

Result<Outcome> Judge(const Settings& s, const std::string& model, const std::string& name, const PlantedFault& fault,
                      const std::function<void()>& host = {}) {
  const auto at = [&](const char* file) { return (s.folder / file).string(); };
  EVOQ_TRY(ExportOnnx(fault.real, at("real.onnx")));
  EVOQ_ASSIGN(const Model sound, LowerAndPack(fault.sound));
  EVOQ_TRY(WriteEtm(sound, at("sound.etm")));
  EVOQ_ASSIGN(const Model faulty, LowerAndPack(fault.faulty));
  EVOQ_TRY(WriteEtm(faulty, at("faulty.etm")));
  ExplainJob job;
  job.model = at("faulty.etm");
  job.baseline = at("real.onnx");
  job.threads = s.threads;
  job.duration_s = s.duration_s;
  job.host = host;
  EVOQ_ASSIGN(const Explanation e, Explain(job));
  Outcome outcome{model, name, fault.code, "ms", 0, 0, 0, 0, 0, {}};
  if (FindExplainRule(fault.code, LedgerKind::kBytes) != nullptr) {
    outcome.unit = "bytes";
    outcome.truth = static_cast<double>(std::filesystem::file_size(at("faulty.etm"))) - static_cast<double>(std::filesystem::file_size(at("sound.etm")));
    for (const ByteCause& c : e.bytes->causes) outcome.explained += c.code == fault.code ? static_cast<double>(c.bytes) : 0;
    outcome.unexplained = static_cast<double>(e.bytes->unexplained_bytes);
    outcome.ledger = ToJson(*e.bytes);
    return outcome;
  }
  EVOQ_ASSIGN(outcome.truth, TrueCost(s, at("sound.etm"), at("faulty.etm"), host));
  for (const TimeCause& c : e.time->causes) outcome.explained += c.code == fault.code ? c.ms : 0;
  outcome.unexplained = e.time->unexplained_ms;
  outcome.gap = e.time->actual_ms - e.time->ideal_ms;
  outcome.total = e.time->actual_ms;
  outcome.ledger = ToJson(*e.time);
  return outcome;
}

struct Case {
  std::string model;
  std::string fault;
  std::function<Result<PlantedFault>(const FaultModel&)> plant;
  std::function<void()> host = {};
};

std::vector<Case> Cases() {
  const auto host = [](const FaultModel& m) -> Result<PlantedFault> {
    PlantedFault fault{"host-time", m.graph, {}, {}};
    EVOQ_ASSIGN(fault.sound, Quantized(m.graph, m.ranges));
    fault.faulty = fault.sound;
    return fault;
  };
  return {
      {"pointwise", "an extra Q/DQ pair", [](const FaultModel& m) { return ExtraQdqBeforeFloat(m, 4); }},
      {"pointwise", "a layer excluded", [](const FaultModel& m) { return ExcludedLayer(m, 3); }},
      {"resnet18", "the first layer excluded", [](const FaultModel& m) { return ExcludedLayer(m, 0); }},
      {"mobilenetv2", "a layer excluded", [](const FaultModel& m) { return ExcludedLayer(m, 3); }},
      {"pointwise", "LpNormalization in the chain", [](const FaultModel& m) { return NoIntegerKernel(m, 4, "LpNormalization"); }},
      {"resnet18", "LRN in the chain", [](const FaultModel& m) { return NoIntegerKernel(m, 2, "LRN"); }},
      {"pointwise", "dynamic activations, one layer", [](const FaultModel& m) { return DynamicScales(m, 3, 3); }},
      {"pointwise", "dynamic activations, four layers", [](const FaultModel& m) { return DynamicScales(m, 2, 5); }},
      {"resnet18", "dynamic activations, all layers", [](const FaultModel& m) { return DynamicScales(m, 0, Convolutions(m.graph).size() - 1); }},
      {"resnet18", "1 ms host delay", host, HostDelay},
      {"mobilenetv2", "1 ms host delay", host, HostDelay},
      {"resnet18", "weights stored twice", [](const FaultModel& m) { return WeightsTwice(m, 13, 14); }},
  };
}

Result<int> Run(const Settings& s) {
  std::map<std::string, FaultModel> models;
  TextTable table({"model", "fault", "cause", ">true cost", ">explained", ">ratio", ">unexplained", ""});
  json rows = json::array();
  int failed = 0;
  for (const Case& c : Cases()) {
    if ((c.model + " " + c.fault).find(s.only) == std::string::npos) continue;
    if (!models.count(c.model)) {
      EVOQ_ASSIGN(models[c.model], MakeFaultModel(c.model, s.threads));
    }
    EVOQ_ASSIGN(const PlantedFault fault, c.plant(models[c.model]));
    EVOQ_ASSIGN(const Outcome o, Judge(s, c.model, c.fault, fault, c.host));
    const auto shown = [&](double v) { return o.unit == "ms" ? fmt::format("{:.4f} ms", v) : fmt::format("{:.0f} B", v); };
    table.Row({o.model, o.fault, o.code, shown(o.truth), shown(o.explained), fmt::format("{:.1f}%", 100 * o.ratio()), shown(o.unexplained), o.holds() ? "holds" : "FAILS"});
    rows.push_back({{"model", o.model}, {"fault", o.fault}, {"code", o.code}, {"unit", o.unit}, {"true_cost", o.truth}, {"explained", o.explained},
                    {"ratio", o.ratio()}, {"unexplained", o.unexplained}, {"holds", o.holds()}, {"ledger", o.ledger}});
    failed += !o.holds();
  }
  Out("{}", table.ToString());
  if (!s.json_path.empty()) EVOQ_TRY(WriteFileAtomic(s.json_path, rows.dump(1) + "\n"));
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace evoq

int main(int argc, char** argv) {
  using namespace evoq;
  Settings settings;
  CLI::App app("Plants faults and compares what explain says with what they cost.");
  app.add_option("--threads", settings.threads)->capture_default_str();
  app.add_option("--duration-s", settings.duration_s, "Time to measure each model")->capture_default_str();
  app.add_option("--only", settings.only, "Only the cases whose model and fault contain this");
  app.add_option("--json", settings.json_path, "Also write the figures and ledgers");
  CLI11_PARSE(app, argc, argv);
  settings.folder = std::filesystem::temp_directory_path() / ("evoq_planted_" + std::to_string(::getpid()));
  std::filesystem::create_directories(settings.folder);
  const auto code = Run(settings);
  std::filesystem::remove_all(settings.folder);
  if (!code) Log("{}", code.error().message());
  return code ? *code : 4;
}
