// Plants faults that cost time or bytes in models, lets `explain` explain the faulty model,
// measures in the same rounds what the model without the fault takes, and compares.
//   evoq_planted_faults [--threads N] [--duration-s D] [--repeat R] [--only TEXT] [--models DIR]
//   [--json FILE]
// A true cost whose 95% interval is wider than the 15% that a cause may be off is undecided.
// Exit code 1 when the median over the repetitions names a cause at less than 85% or more than 115%
// of the true cost, cannot decide, or a ledger does not add up.
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/printable.h"
#include "bench/fault_models.h"
#include "cli/common.h"
#include "models/models.h"
#include "profile/interval.h"
#include "report/explain_rule.h"
#include "report/table.h"
#include "workflow/explain.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Settings {
  int threads = 1, repeat = 1;
  double duration_s = 3;
  std::string only, models, json_path;
  std::filesystem::path folder;
};

struct Outcome {
  std::string model, fault, code, unit;
  double truth = 0, explained = 0;             // ms or bytes
  double truth_half = 0;                       // half of the 95% interval of the true cost, ms
  double spread = 0;                           // half of explain's interval, ms
  double unexplained = 0, gap = 0, total = 0;  // of the ledger
  json ledger;

  double ratio() const { return truth > 0 ? explained / truth : 0; }
  bool adds_up() const {
    const double rest = std::fabs(unexplained);
    return unit == "bytes" ? rest == 0 : rest <= 0.03 * gap || rest <= 0.01 * total;
  }
  bool decided() const { return unit == "bytes" || truth_half <= 0.15 * std::fabs(truth); }
  bool holds() const { return decided() && ratio() >= 0.85 && ratio() <= 1.15 && adds_up(); }
};

// 1 ms of the caller's own time: busy, as decoding would be.
void HostDelay() {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + std::chrono::milliseconds(1); Clock::now() < end;) {
  }
}

struct TrueCost {
  double ms = 0, half_ms = 0;  // and half of its 95% interval, from the parts of the measured time
};

// What the runs of `with` take longer than those of `without`, measured in the same rounds as what
// explain says.
TrueCost TrueCostOf(const StepProfile& with, const StepProfile& without) {
  TrueCost cost{with.total_ms - without.total_ms, INFINITY};
  std::vector<double> differences;
  for (size_t p = 0; p < std::min(with.parts.size(), without.parts.size()); ++p)
    differences.push_back(with.parts[p].total_ms - without.parts[p].total_ms);
  if (differences.size() > 1) cost.half_ms = HalfMeanInterval(differences);
  return cost;
}

Result<Outcome> Judge(const Settings& s, const std::string& model, const std::string& name,
                      const PlantedFault& fault, const std::function<void()>& host = {}) {
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
  job.beside = {at("sound.etm")};
  EVOQ_ASSIGN(const Explanation e, Explain(job));
  Outcome outcome{.model = model, .fault = name, .code = fault.code, .unit = "ms"};
  if (FindExplainRule(fault.code, LedgerKind::kBytes) != nullptr) {
    outcome.unit = "bytes";
    outcome.truth = static_cast<double>(std::filesystem::file_size(at("faulty.etm"))) -
                    static_cast<double>(std::filesystem::file_size(at("sound.etm")));
    for (const ByteCause& c : e.bytes->causes)
      outcome.explained += c.code == fault.code ? static_cast<double>(c.bytes) : 0;
    outcome.unexplained = static_cast<double>(e.bytes->unexplained_bytes);
    outcome.ledger = ToJson(*e.bytes);
    return outcome;
  }
  const TrueCost cost = TrueCostOf(e.model.profile, e.beside[0].profile);
  outcome.truth = cost.ms;
  outcome.truth_half = cost.half_ms;
  for (const TimeCause& c : e.time->causes) {
    if (c.code != fault.code) continue;
    outcome.explained += c.ms;
    outcome.spread = c.spread_ms;
  }
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
  const auto qdq = [](size_t first, size_t last) {
    return [=](const FaultModel& m) { return ExtraQdqBeforeFloat(m, first, last); };
  };
  const auto excluded = [](size_t conv) {
    return [=](const FaultModel& m) { return ExcludedLayer(m, conv); };
  };
  const auto without_kernel = [](size_t conv, const char* op) {
    return [=](const FaultModel& m) { return NoIntegerKernel(m, conv, op); };
  };
  const auto dynamic = [](size_t first, size_t last) {
    return [=](const FaultModel& m) {
      return DynamicScales(m, first, std::min(last, Convolutions(m.graph).size() - 1));
    };
  };
  const auto twice = [](size_t original, size_t copy) {
    return [=](const FaultModel& m) { return WeightsTwice(m, original, copy); };
  };
  constexpr size_t kAll = 1000;
  return {
      {"pointwise", "an extra Q/DQ pair", qdq(4, 4)},
      {"resnet8", "an extra Q/DQ pair before each layer",
       qdq(1, 8)},  // one of 16 kB costs less than half a microsecond
      {"mobilenetv2", "an extra Q/DQ pair", qdq(4, 4)},
      {"pointwise", "a layer excluded", excluded(3)},
      {"resnet8", "a layer excluded", excluded(1)},
      {"mobilenetv2", "a layer excluded", excluded(3)},
      {"resnet18", "the first layer excluded", excluded(0)},
      {"pointwise", "LpNormalization in the chain", without_kernel(4, "LpNormalization")},
      {"resnet8", "LpNormalization in the chain", without_kernel(1, "LpNormalization")},
      {"mobilenetv2", "LpNormalization in the chain", without_kernel(4, "LpNormalization")},
      {"resnet18", "LRN in the chain", without_kernel(2, "LRN")},
      {"pointwise", "dynamic activations, one layer", dynamic(3, 3)},
      {"pointwise", "dynamic activations, four layers", dynamic(2, 5)},
      {"resnet8", "dynamic activations, all layers", dynamic(0, kAll)},
      {"mobilenetv2", "dynamic activations, one layer", dynamic(3, 3)},
      {"resnet18", "dynamic activations, all layers", dynamic(0, kAll)},
      {"resnet8", "1 ms host delay", host, HostDelay},
      {"mobilenetv2", "1 ms host delay", host, HostDelay},
      {"resnet18", "1 ms host delay", host, HostDelay},
      {"mobilenetv2", "weights stored twice", twice(26, 29)},
      {"resnet18", "weights stored twice", twice(13, 14)},
      {"resnet50", "a layer excluded", excluded(4)},
      {"resnet50", "LpNormalization in the chain", without_kernel(4, "LpNormalization")},
      {"squeezenet1.1.onnx", "an extra Q/DQ pair", qdq(1, 1)},
      {"squeezenet1.1.onnx", "a layer excluded", excluded(3)},
      {"squeezenet1.1.onnx", "LpNormalization in the chain", without_kernel(1, "LpNormalization")},
      {"squeezenet1.1.onnx", "dynamic activations, one layer", dynamic(3, 3)},
      {"tiny_darknet.onnx", "an extra Q/DQ pair", qdq(2, 2)},
      {"tiny_darknet.onnx", "a layer excluded", excluded(2)},
      {"tiny_darknet.onnx", "LpNormalization in the chain", without_kernel(2, "LpNormalization")},
  };
}

json ToJson(const Outcome& o) {
  return {{"model", o.model},         {"fault", o.fault},
          {"code", o.code},           {"unit", o.unit},
          {"true_cost", o.truth},     {"true_cost_half", o.truth_half},
          {"explained", o.explained}, {"spread", o.spread},
          {"ratio", o.ratio()},       {"unexplained", o.unexplained},
          {"decided", o.decided()},   {"holds", o.holds()},
          {"ledger", o.ledger}};
}

// One line for all repetitions of a case; whether its median holds, and every ledger adds up.
bool Summarize(const std::vector<Outcome>& outcomes, TextTable& table) {
  std::vector<double> ratios, truths, explained;
  double rest = 0, half = 0;
  bool adds_up = true, decided = true;
  for (const Outcome& o : outcomes) {
    half = std::max(half, o.truth_half);
    decided = decided && o.decided();
    ratios.push_back(o.ratio());
    truths.push_back(o.truth);
    explained.push_back(o.explained);
    rest = std::max(rest, std::fabs(o.unexplained));
    adds_up = adds_up && o.adds_up();
  }
  for (auto* list : {&ratios, &truths, &explained}) std::sort(list->begin(), list->end());
  const Outcome& o = outcomes.front();
  const size_t middle = ratios.size() / 2;
  const bool holds = adds_up && decided && ratios[middle] >= 0.85 && ratios[middle] <= 1.15;
  const auto within = static_cast<size_t>(
      std::count_if(ratios.begin(), ratios.end(), [](double r) { return r >= 0.85 && r <= 1.15; }));
  const auto shown = [&](double v) {
    return o.unit == "ms" ? fmt::format("{:.4f} ms", v) : fmt::format("{:.0f} B", v);
  };
  table.Row({o.model, o.fault, o.code, shown(truths[middle]),
             o.unit == "ms" ? fmt::format("{:.4f}", half) : "", shown(explained[middle]),
             fmt::format("{:.1f}%", 100 * ratios.front()),
             fmt::format("{:.1f}%", 100 * ratios[middle]),
             fmt::format("{:.1f}%", 100 * ratios.back()),
             fmt::format("{}/{}", within, ratios.size()), shown(rest),
             holds     ? "holds"
             : decided ? "FAILS"
                       : "undecided"});
  return holds;
}

Result<int> Run(const Settings& s) {
  std::map<std::string, FaultModel> models;
  const std::vector<Case> cases = Cases();
  std::map<size_t, std::vector<Outcome>> outcomes;  // by case
  for (int repetition = 0; repetition < s.repeat; ++repetition) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      if ((c.model + " " + c.fault).find(s.only) == std::string::npos) continue;
      const bool file = c.model.ends_with(".onnx");
      if (file && s.models.empty()) continue;
      if (!models.count(c.model)) {
        EVOQ_ASSIGN(models[c.model],
                    MakeFaultModel(file ? s.models + "/" + c.model : c.model, s.threads));
      }
      EVOQ_ASSIGN(const PlantedFault fault, c.plant(models[c.model]));
      EVOQ_ASSIGN(const Outcome o, Judge(s, c.model, c.fault, fault, c.host));
      Log("{} {}: {:.1f}% of {:.4g} {}, +-{:.4g}, explain's interval +-{:.4f}", o.model, o.fault,
          100 * o.ratio(), o.truth, o.unit, o.truth_half, o.spread);
      outcomes[i].push_back(o);
    }
  }
  TextTable table({"model", "fault", "cause", ">true cost", ">+-", ">explained", ">least",
                   ">median", ">most", ">within 15%", ">unexplained", ""});
  json rows = json::array();
  int failed = 0;
  for (const auto& [index, repeated] : outcomes) {
    failed += !Summarize(repeated, table);
    for (const Outcome& o : repeated) rows.push_back(ToJson(o));
  }
  Out("{}", Lines{table.ToString()});
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
  app.add_option("--duration-s", settings.duration_s, "Time to measure each model")
      ->capture_default_str();
  app.add_option("--repeat", settings.repeat, "Times to measure all of it")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", settings.only, "Only the cases whose model and fault contain this");
  app.add_option(
      "--models", settings.models,
      "Folder of squeezenet1.1.onnx and tiny_darknet.onnx: their cases run only with it");
  app.add_option("--json", settings.json_path, "Also write the figures and ledgers");
  CLI11_PARSE(app, argc, argv);
  settings.folder =
      std::filesystem::temp_directory_path() / ("evoq_planted_" + std::to_string(::getpid()));
  std::filesystem::create_directories(settings.folder);
  const auto code = Run(settings);
  std::filesystem::remove_all(settings.folder);
  if (!code) Log("{}", code.error().message());
  return code ? *code : 4;
}
