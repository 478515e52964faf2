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
      {"begin_suppressed", f.begin_suppressed},
      {"audio",
       {{"bins", f.audio.bins},
        {"rate", f.audio.rate},
        {"window", f.audio.window},
        {"hop", f.audio.hop},
        {"names_language", f.audio.names_language}}},
      {"no_repeat", f.no_repeat},
      {"min_tokens", f.min_tokens},
      {"length_penalty", f.length_penalty},
      {"early_stopping",
       f.early_stopping}}.dump();
}

Status CheckTargetFacts(const TargetFacts& f, int64_t vocabulary) {
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  for (const auto* ids :
       {&f.start, &f.forced_begin, &f.forced_end, &f.suppressed, &f.begin_suppressed}) {
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
  const AudioFacts& a = f.audio;
  constexpr int64_t kMostBins = 1024, kMostSamples = 1 << 16, kMostRate = 1 << 20;
  if (a.bins < 0 || a.bins > kMostBins)
    return InvalidInput("{} bins of frequencies, expected 1 to {}", a.bins, kMostBins);
  if (a.window < 2 || a.window % 2 != 0 || a.window > kMostSamples || a.hop < 1 ||
      a.hop > a.window || a.rate < 1 || a.rate > kMostRate)
    return InvalidInput("frames of {} samples, one every {}, of {} in a second", a.window, a.hop,
                        a.rate);
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
    EVOQ_ASSIGN(f.begin_suppressed, Ids(json, "begin_suppressed"));
    if (Given(json, "audio") && json["audio"].is_object()) {
      const nlohmann::json& audio = json["audio"];
      EVOQ_ASSIGN(f.audio.bins, Int(audio, {"bins"}));
      EVOQ_ASSIGN(f.audio.rate, Int(audio, {"rate"}));
      EVOQ_ASSIGN(f.audio.window, Int(audio, {"window"}));
      EVOQ_ASSIGN(f.audio.hop, Int(audio, {"hop"}));
      EVOQ_ASSIGN(f.audio.names_language, Truth(audio, "names_language", true));
    }
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
