#include "workflow/advice.h"

#include "base/printable.h"

namespace evoq {

#define EVOQ_ROW_TYPE AdviceRule
#define EVOQ_ROW_FILE "workflow/advice.inc"
#include "base/rows.inl.h"

std::span<const AdviceRule* const> AllAdviceRules() { return kAllRows; }

std::vector<Advice> Advise(const Deployed& deployed) {
  std::vector<Advice> found;
  for (const AdviceRule* rule : AllAdviceRules()) {
    if (const auto seen = rule->look(deployed)) found.push_back({rule->code, *seen, rule->fix});
  }
  return found;
}

Told Tell(const std::vector<Advice>& advice) {
  Told told;
  told.json = nlohmann::json::array();
  for (const Advice& a : advice) {
    told.text += FormatPrintable("  {}: {}\n    {}\n", a.code, a.sentence, a.fix);
    told.json.push_back({{"code", a.code}, {"sentence", a.sentence}, {"fix", a.fix}});
  }
  return told;
}

}  // namespace evoq
