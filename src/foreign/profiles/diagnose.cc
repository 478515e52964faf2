#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "foreign/profiles/rule.h"

namespace evoq {

namespace {
constexpr double kLeastMs = 1e-3;  // that a finding is worth

bool Judges(const ProfileRule& rule, const std::string& tool) {
  return *rule.tool == '\0' ||
         fmt::format(" {} ", rule.tool).find(" " + tool + " ") != std::string::npos;
}
}  // namespace

#define EVOQ_ROW_TYPE ProfileRule
#define EVOQ_ROW_FILE "foreign/profiles/rules.inc"
#include "base/rows.inl.h"

std::span<const ProfileRule* const> AllProfileRules() { return kAllRows; }

std::vector<Loss> LossesWhere(const ForeignRun& run,
                              const std::function<bool(const ForeignLayer&)>& so, double share) {
  std::vector<Loss> losses;
  for (size_t i = 0; i < run.layers.size(); ++i) {
    if (so(run.layers[i])) losses.push_back({i, run.layers[i].ms * share});
  }
  return losses;
}

bool IsFloat(const std::string& precision) {
  return precision == "fp32" || precision == "fp16" || precision == "bf16";
}

double NarrowingShare(const ForeignLayer& layer) {
  return IsFloat(layer.precision) ? 1 - 8.0 / BitsOf(layer.precision) : 0;
}

Diagnosis Diagnose(const ForeignRun& run, const ForeignRun* baseline) {
  Diagnosis diagnosis;
  const ProfileCase c{run, baseline, Wiring(run)};
  std::vector<bool> taken(run.layers.size());
  double lost = 0;
  for (const ProfileRule* rule : AllProfileRules()) {
    if (!Judges(*rule, run.tool)) continue;
    Finding finding;
    finding.rule = rule;
    std::vector<size_t> layers;
    for (const Loss& loss : rule->find(c)) {
      if (taken[loss.layer]) continue;
      taken[loss.layer] = true;
      finding.ms += loss.ms;
      finding.layers.push_back(run.layers[loss.layer].name);
      layers.push_back(loss.layer);
    }
    if (layers.empty() || (finding.ms < kLeastMs && !rule->doubt)) {
      for (size_t i : layers) taken[i] = false;
      continue;
    }
    lost += finding.ms;
    diagnosis.findings.push_back(std::move(finding));
  }
  std::sort(diagnosis.findings.begin(), diagnosis.findings.end(),
            [](const Finding& a, const Finding& b) {
              return a.ms != b.ms ? a.ms > b.ms : std::string_view(a.rule->code) < b.rule->code;
            });
  if (baseline != nullptr) {
    for (const ForeignLayer& layer : baseline->layers)
      diagnosis.ideal_ms += layer.ms * (1 - NarrowingShare(layer));
    diagnosis.below_ideal_ms = run.layer_sum_ms - lost - diagnosis.ideal_ms;
  }
  return diagnosis;
}

}  // namespace evoq
