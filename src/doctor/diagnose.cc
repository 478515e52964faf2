#include <algorithm>
#include <string_view>

#include "doctor/rule.h"

namespace evoq {

#define EVOQ_ROW(name) extern const DoctorRule name;
#include "doctor/rules.inc"
#undef EVOQ_ROW

std::span<const DoctorRule* const> AllDoctorRules() {
#define EVOQ_ROW(name) &name,
  static const DoctorRule* const kRules[] = {
#include "doctor/rules.inc"
  };
#undef EVOQ_ROW
  return kRules;
}

std::vector<Loss> LossesWhere(const ForeignRun& run, const std::function<bool(const ForeignLayer&)>& so, double share) {
  std::vector<Loss> losses;
  for (size_t i = 0; i < run.layers.size(); ++i) {
    if (so(run.layers[i])) losses.push_back({i, run.layers[i].ms * share});
  }
  return losses;
}

std::vector<size_t> Readers(const ForeignRun& run, size_t layer) {
  std::vector<size_t> readers;
  const ForeignLayer& writer = run.layers[layer];
  if (writer.outputs.empty() || writer.outputs[0].name.empty()) {
    if (layer + 1 < run.layers.size()) readers.push_back(layer + 1);
    return readers;
  }
  for (size_t i = 0; i < run.layers.size(); ++i) {
    for (const ForeignTensor& input : run.layers[i].inputs) {
      const bool reads = std::any_of(writer.outputs.begin(), writer.outputs.end(),
                                     [&](const ForeignTensor& output) { return output.name == input.name; });
      if (!reads) continue;
      readers.push_back(i);
      break;
    }
  }
  return readers;
}

double NarrowingShare(const ForeignLayer& layer) {
  const int bits = BitsOf(layer.precision);
  return bits > 8 ? 1 - 8.0 / bits : 0;
}

Diagnosis Diagnose(const ForeignRun& run, const ForeignRun* baseline) {
  Diagnosis diagnosis;
  const DoctorCase c{run, baseline};
  std::vector<bool> taken(run.layers.size());
  double lost = 0;
  for (const DoctorRule* rule : AllDoctorRules()) {
    if (*rule->tool != '\0' && run.tool != rule->tool) continue;
    Finding finding;
    finding.rule = rule;
    for (const Loss& loss : rule->find(c)) {
      if (taken[loss.layer]) continue;
      taken[loss.layer] = true;
      finding.ms += loss.ms;
      finding.layers.push_back(run.layers[loss.layer].name);
    }
    if (finding.ms < 1e-3) continue;
    lost += finding.ms;
    diagnosis.findings.push_back(std::move(finding));
  }
  std::sort(diagnosis.findings.begin(), diagnosis.findings.end(), [](const Finding& a, const Finding& b) {
    return a.ms != b.ms ? a.ms > b.ms : std::string_view(a.rule->code) < b.rule->code;
  });
  if (baseline != nullptr) {
    for (const ForeignLayer& layer : baseline->layers) diagnosis.ideal_ms += layer.ms * (1 - NarrowingShare(layer));
    diagnosis.below_ideal_ms = run.layer_sum_ms - lost - diagnosis.ideal_ms;
  }
  return diagnosis;
}

}  // namespace evoq
