// What the ledgers of evoq's own models can say: one row per cause, named by one line in
// report/rules.inc. docs/explain.md has a section for each.
#pragma once

#include <span>
#include <string_view>

#include "program/model.h"

namespace evoq {

enum class LedgerKind { kTime, kBytes };

struct ExplainRule {
  const char* code;
  LedgerKind ledger;
  const char* sentence;    // what was lost, and why
  const char* fix;         // what helps; "" where nothing does
  double recoverable = 0;  // the share of the loss that the fix wins back: the predicted gain
  // Of time: whether this step is by itself the reason of a loss, its own and that of the
  // conversions and float steps around it; a copy between memories is the reason of its own time
  // alone. Null for causes that the compiler's decision names (Decision::float_reason) and for
  // those that the ledger works out.
  bool (*claims)(const Graph& graph, const Step& step) = nullptr;
};

std::span<const ExplainRule* const> AllExplainRules();
// nullptr when there is none.
const ExplainRule* FindExplainRule(std::string_view code, LedgerKind ledger);

}  // namespace evoq
