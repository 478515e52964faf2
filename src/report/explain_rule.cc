#include "report/explain_rule.h"

namespace evoq {

#define EVOQ_ROW_TYPE ExplainRule
#define EVOQ_ROW_FILE "report/rules.inc"
#include "base/rows.inl.h"

std::span<const ExplainRule* const> AllExplainRules() { return kAllRows; }

const ExplainRule* FindExplainRule(std::string_view code, LedgerKind ledger) {
  for (const ExplainRule* rule : AllExplainRules()) {
    if (rule->ledger == ledger && code == rule->code) return rule;
  }
  return nullptr;
}

}  // namespace evoq
