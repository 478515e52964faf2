// What a deployment's troubles come of, and what helps: one row for each, named by one line in
// workflow/advice.inc. docs/tuning.md has the table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "runtime/executor.h"
#include "workflow/told.h"

namespace evoq {

// What is known of a deployed model. What was not measured is nothing.
struct Deployed {
  const Model* model = nullptr;
  const Executor* executor = nullptr;     // at the sizes that count
  std::optional<double> sqnr_db;          // of its worst output beside the model it was made from
  std::optional<double> baseline_arena;   // bytes, of that model
  std::optional<int> streams;             // that were measured beside each other
  std::optional<double> streams_speedup;  // what they do in a second, of what one stream does
  std::optional<double> prepare_ms;       // of a file: what preparing these sizes took
};

struct Advice {
  std::string code;      // of the row
  std::string sentence;  // what is seen here
  std::string fix;       // what helps
};

struct AdviceRule {
  const char* code;
  const char* symptom;  // as users put it
  const char* fix;
  // What is seen of it; nothing where it is not there.
  std::optional<std::string> (*look)(const Deployed& deployed);
};

std::span<const AdviceRule* const> AllAdviceRules();
// Of all rules that apply, in their order.
std::vector<Advice> Advise(const Deployed& deployed);
// In JSON [{"code", "sentence", "fix"}]; two lines for each.
Told Tell(const std::vector<Advice>& advice);

}  // namespace evoq
