// What a language model with caches (docs/llm.md) is measured in: runs over a prompt, and over
// single tokens behind a context.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// Values of a graph that reads tokens, extends its caches and gives logits.
struct CacheInputs {
  ValueId tokens;               // int64 [batch, sequence]
  ValueId place;                // int64 [batch]: tokens that the caches hold
  ValueId wanted;               // int64 [batch, wanted]: places whose logits are asked for
  std::vector<ValueId> caches;  // [batch, heads, context, head size]
  // Of a model that reads one text and writes another, else invalid: int64 [batch, source] or
  // float32 [batch, frames, bins], and int64 [batch], the tokens of the source that its caches
  // hold.
  ValueId source, source_length;
  bool reads() const { return source.valid(); }
};
// Nothing for any other graph.
std::optional<CacheInputs> FindCacheInputs(const Graph& graph);

// One run: `tokens` more for each of `sequences`, behind `context` that they have. Of a model that
// reads one text and writes another several tokens are those of the text that is read, and one is
// the next of the other text, whose source has `source` tokens; 0: as many as its context, or 1.
struct Phase {
  int64_t sequences = 1, context = 0, tokens = 1;
  int64_t source = 0;
};

// What the user says of phases.
struct PhaseOptions {
  int64_t prompt_length = 0;  // 0: 512, or what the model holds
  int64_t context = -1;       // -1: of a prompt 0, of what follows one the prompt's length
  int64_t sequences = 1;

  bool operator==(const PhaseOptions&) const = default;
};

struct PhaseDef {
  const char* name;
  const char* doc;
  // `most`: tokens that a sequence may have.
  Phase (*of)(const PhaseOptions& options, int64_t most);
};
std::span<const PhaseDef* const> AllPhases();      // kPromptPhase, kDecodePhase
const PhaseDef* FindPhase(std::string_view name);  // null where there is none
extern const PhaseDef kPromptPhase;                // "prompt"
extern const PhaseDef kDecodePhase;                // "decode"

// The most tokens that a sequence may have: the model's facts say, or its caches' size; 2^22 where
// neither does.
int64_t MostTokens(const Graph& graph);
// How many tokens the model knows: its facts say; 1 where they do not.
int64_t VocabularyOf(const Graph& graph);
// The length of the prompt: what the options say, or their default.
int64_t PromptLength(const PhaseOptions& options, int64_t most);

// All inputs of a run: sizes of each, and what those hold whose content counts (tokens, places);
// the caches' any content serves.
struct PhaseInputs {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, Tensor> contents;
};
// Caches have room for `room` tokens a sequence, 0: for as many as the run leaves in them. Errors:
// kUsage for numbers below 1 (a context below 0), and for more tokens than the model holds.
Result<PhaseInputs> InputsOf(const Graph& graph, const CacheInputs& inputs, const Phase& phase,
                             int64_t room = 0);

}  // namespace evoq
