#include "report/explain_rule.h"

namespace evoq {

#define EVOQ_ROW(name) extern const ExplainRule name;
#include "report/rules.inc"
#undef EVOQ_ROW

std::span<const ExplainRule* const> AllExplainRules() {
#define EVOQ_ROW(name) &name,
  static constexpr const ExplainRule* kRules[] = {
#include "report/rules.inc"
  };
#undef EVOQ_ROW
  return kRules;
}

const ExplainRule* FindExplainRule(std::string_view code, LedgerKind ledger) {
  for (const ExplainRule* rule : AllExplainRules()) {
    if (rule->ledger == ledger && code == rule->code) return rule;
  }
  return nullptr;
}

}  // namespace evoq
