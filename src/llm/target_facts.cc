#include "llm/target_facts.h"

#include <cmath>

#include "base/json_file.h"
#include "llm/settings.h"

namespace evoq {
namespace {

constexpr char kFact[] = "llm.target";

}  // namespace

void SetTargetFacts(const TargetFacts& f, Graph& graph) {
  graph.metadata[kFact] = nlohmann::json{
      {"source_context", f.source_context},
      {"source_vocabulary", f.source_vocabulary},
      {"start", f.start},
      {"forced_begin", f.forced_begin},
      {"forced_end", f.forced_end},
      {"suppressed", f.suppressed},
      {"no_repeat", f.no_repeat},
      {"min_tokens", f.min_tokens},
      {"length_penalty", f.length_penalty},
      {"early_stopping",
       f.early_stopping}}.dump();
}

Status CheckTargetFacts(const TargetFacts& f, int64_t vocabulary) {
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  for (const auto* ids : {&f.start, &f.forced_begin, &f.forced_end, &f.suppressed}) {
    for (const int64_t id : *ids) {
      if (id < 0 || id >= vocabulary)
        return InvalidInput("token {} of a vocabulary of {}", id, vocabulary);
    }
  }
  if (f.start.empty())
    return InvalidInput(
        "decoder_start_token_id is missing: what the text begins with is not known");
  for (const int64_t number : {f.no_repeat, f.min_tokens, f.source_context, f.source_vocabulary}) {
    if (number < 0 || number > kMostTokens)
      return InvalidInput("{} tokens, expected 0 to {}", number, kMostTokens);
  }
  constexpr double kMostPenalty = 100;
  if (!(std::abs(f.length_penalty) <= kMostPenalty))
    return InvalidInput("length_penalty is {}, expected -100 to 100", f.length_penalty);
  return {};
}

Result<TargetFacts> ReadTargetFacts(const Graph& graph, int64_t vocabulary) {
  TargetFacts f;
  const auto fact = graph.metadata.find(kFact);
  if (fact == graph.metadata.end()) return f;
  const auto read = [&]() -> Status {
    EVOQ_ASSIGN(const nlohmann::json json, ParseJson(fact->second));
    if (!json.is_object()) return InvalidInput("it is no object");
    EVOQ_ASSIGN(f.source_context, Int(json, {"source_context"}));
    EVOQ_ASSIGN(f.source_vocabulary, Int(json, {"source_vocabulary"}));
    EVOQ_ASSIGN(f.start, Ids(json, "start"));
    EVOQ_ASSIGN(f.forced_begin, Ids(json, "forced_begin"));
    EVOQ_ASSIGN(f.forced_end, Ids(json, "forced_end"));
    EVOQ_ASSIGN(f.suppressed, Ids(json, "suppressed"));
    EVOQ_ASSIGN(f.no_repeat, Int(json, {"no_repeat"}, 0));
    EVOQ_ASSIGN(f.min_tokens, Int(json, {"min_tokens"}, 0));
    EVOQ_ASSIGN(f.length_penalty, Real(json, {"length_penalty"}, 1));
    EVOQ_ASSIGN(f.early_stopping, Truth(json, "early_stopping", false));
    if (f.source_context < 1 || f.source_vocabulary < 1)
      return InvalidInput("a source of {} tokens of {}, expected 1 or more", f.source_context,
                          f.source_vocabulary);
    return CheckTargetFacts(f, vocabulary);
  };
  EVOQ_TRY(WithContext(read(), kFact));
  return f;
}

}  // namespace evoq
