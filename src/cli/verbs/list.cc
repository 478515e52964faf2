#include "base/nearest.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "foreign/forecasts/rule.h"
#include "foreign/profiles/rule.h"
#include "kernels/kernel.h"
#include "nn/layer.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "quant/method.h"
#include "quant/observer.h"
#include "report/explain_rule.h"
#include "report/table.h"
#include "train/gradient.h"
#include "workflow/advice.h"

namespace evoq {
namespace {

using nlohmann::json;

const char* TraitName(QuantTrait trait) {
  switch (trait) {
    case QuantTrait::kFloat: return "float only";
    case QuantTrait::kLinear: return "integer arithmetic";
    case QuantTrait::kMove: return "keeps integers";
    case QuantTrait::kReal: return "own scale";
    case QuantTrait::kTable: return "table";
  }
  return "";
}

json ListOps(TextTable& table) {
  json rows = json::array();
  for (const OpDef* op : AllOps()) {
    table.Row({*op->domain ? op->domain : "ai.onnx", op->name, TraitName(op->quant)});
    rows.push_back(
        {{"domain", op->domain}, {"name", op->name}, {"quantized", TraitName(op->quant)}});
  }
  return rows;
}

json ListKernels(TextTable& table) {
  json rows = json::array();
  for (const KernelDef* kernel : AllKernels()) {
    table.Row({kernel->name, kernel->op, PrecisionName(kernel->precision)});
    rows.push_back({{"name", kernel->name},
                    {"op", kernel->op},
                    {"precision", PrecisionName(kernel->precision)}});
  }
  return rows;
}

json ListPasses(TextTable& table) {
  json rows = json::array();
  for (const PassDef* pass : AllPasses()) {
    const char* stage = pass->stage == Stage::kOptimize ? "optimize" : "lower";
    table.Row({pass->name, stage, std::to_string(pass->level), pass->doc});
    rows.push_back(
        {{"name", pass->name}, {"stage", stage}, {"level", pass->level}, {"doc", pass->doc}});
  }
  return rows;
}

json ListSchemes(TextTable& table) {
  json rows = json::array();
  for (const QuantScheme* scheme : AllSchemes()) {
    table.Row({scheme->name, scheme->needs_calibration ? "calibrated" : "", scheme->doc});
    rows.push_back({{"name", scheme->name},
                    {"needs_calibration", scheme->needs_calibration},
                    {"doc", scheme->doc}});
  }
  return rows;
}

json ListMethods(TextTable& table) {
  json rows = json::array();
  for (const QuantMethod* method : AllMethods()) {
    table.Row({method->name, StageName(method->stage), method->needs_samples ? "samples" : "",
               method->doc, method->paper});
    rows.push_back({{"name", method->name},
                    {"stage", StageName(method->stage)},
                    {"needs_samples", method->needs_samples},
                    {"doc", method->doc},
                    {"paper", method->paper}});
  }
  return rows;
}

json ListObservers(TextTable& table) {
  json rows = json::array();
  for (const ObserverDef* observer : AllObservers()) {
    table.Row({observer->name, "", observer->doc});
    rows.push_back({{"name", observer->name}, {"doc", observer->doc}});
  }
  return rows;
}

json ListVerbs(TextTable& table) {
  json rows = json::array();
  for (const VerbDef* verb : AllVerbs()) {
    table.Row({verb->name, "", verb->doc});
    rows.push_back({{"name", verb->name}, {"doc", verb->doc}});
  }
  return rows;
}

json ListGradients(TextTable& table) {
  json rows = json::array();
  for (const GradientDef* row : AllGradients()) {
    const char* trains = (row->differentiable & ~uint32_t{1}) != 0 ? "weights, data" : "data";
    table.Row({row->op, trains});
    rows.push_back({{"op", row->op}, {"gradients", trains}});
  }
  return rows;
}

json ListLayers(TextTable& table) {
  json rows = json::array();
  for (const LayerDef* row : AllLayers()) {
    table.Row({row->name, row->options, row->doc});
    rows.push_back({{"name", row->name}, {"options", row->options}, {"doc", row->doc}});
  }
  return rows;
}

json ListRules(TextTable& table) {
  json rows = json::array();
  for (const ExplainRule* rule : AllExplainRules()) {
    const char* judges = rule->ledger == LedgerKind::kTime ? "evoq, time" : "evoq, bytes";
    table.Row({rule->code, judges, rule->sentence});
    rows.push_back({{"code", rule->code},
                    {"tool", "evoq"},
                    {"ledger", rule->ledger == LedgerKind::kTime ? "time" : "bytes"},
                    {"sentence", rule->sentence},
                    {"fix", rule->fix},
                    {"source", "docs/explain.md"}});
  }
  for (const AdviceRule* rule : AllAdviceRules()) {
    table.Row({rule->code, "evoq, deployments", rule->symptom});
    rows.push_back({{"code", rule->code},
                    {"tool", "evoq"},
                    {"ledger", "deployment"},
                    {"sentence", rule->symptom},
                    {"fix", rule->fix},
                    {"source", "docs/tuning.md"}});
  }
  for (const ProfileRule* rule : AllProfileRules()) {
    table.Row({rule->code, *rule->tool ? rule->tool : "every runtime", rule->sentence});
    rows.push_back({{"code", rule->code},
                    {"tool", rule->tool},
                    {"sentence", rule->sentence},
                    {"fix", rule->fix},
                    {"source", rule->source}});
  }
  for (const PlacementRule* rule : AllPlacementRules()) {
    table.Row({rule->code, fmt::format("graphs for {}", rule->runtimes), rule->sentence});
    rows.push_back({{"code", rule->code},
                    {"tool", rule->runtimes},
                    {"sentence", rule->sentence},
                    {"fix", rule->fix},
                    {"source", rule->source}});
  }
  return rows;
}

struct Kind {
  const char* name;
  std::vector<std::string> columns;
  json (*list)(TextTable&);
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kKinds = {
      {"ops", {"domain", "operator", "quantized"}, ListOps},
      {"kernels", {"kernel", "operator", "precision"}, ListKernels},
      {"passes", {"pass", "stage", "level", "what it does"}, ListPasses},
      {"schemes", {"scheme", "needs", "what it does"}, ListSchemes},
      {"methods", {"method", "stage", "needs", "what it does", "paper"}, ListMethods},
      {"observers", {"observer", "", "what it does"}, ListObservers},
      {"gradients", {"operator", "gradients of"}, ListGradients},
      {"layers", {"layer", "options", "what it does"}, ListLayers},
      {"rules", {"rule", "judges", "what it finds"}, ListRules},
      {"verbs", {"verb", "", "what it does"}, ListVerbs},
  };
  return kKinds;
}

// "ops, kernels, ... or verbs".
std::string Names() {
  std::string names;
  for (const Kind& kind : Kinds()) {
    const char* before = &kind == &Kinds().front() ? "" : &kind == &Kinds().back() ? " or " : ", ";
    names += std::string(before) + kind.name;
  }
  return names;
}

VerbRun Declare(const VerbOptions& options, const CommonOptions&) {
  auto what = std::make_shared<std::string>();
  options.Add("what", *what, Names()).Required();
  return [what]() -> Result<json> {
    for (const Kind& kind : Kinds()) {
      if (*what != kind.name) continue;
      TextTable table(kind.columns);
      json rows = kind.list(table);
      Out("{}", Lines{table.ToString()});
      return rows;
    }
    std::vector<std::string_view> names;
    for (const Kind& kind : Kinds()) names.emplace_back(kind.name);
    return Fail(ErrorCode::kUsage, "list {}: expected {}{}", *what, Names(),
                NearestHint(*what, names));
  };
}

}  // namespace

extern const VerbDef kVerbList = {
    .name = "list",
    .doc =
        "Lists what this evoq has: operators, kernels, passes, quantization schemes and methods.",
    .example = "evoq list kernels",
    .declare = Declare,
};

}  // namespace evoq
