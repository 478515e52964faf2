#include "llm/phase.h"

#include <algorithm>

#include "base/math.h"
#include "llm/facts.h"

namespace evoq {
namespace {

constexpr char kTokens[] = "input_ids", kPlace[] = "position", kWanted[] = "logits_at",
               kPast[] = "past_", kSource[] = "source_ids", kSourceLength[] = "source_length";

// More tokens than any model holds; keeps products in range.
constexpr int64_t kMost = int64_t{1} << 22;

constexpr const PhaseDef* kPhases[] = {&kPromptPhase, &kDecodePhase};

bool Is(const Value& input, const char* name, int rank) {
  return input.name == name && input.type.dtype == DType::kInt64 && input.type.shape.ranked() &&
         input.type.shape.rank() == rank;
}

// float32 [batch, frames, bins], of which two frames are a token.
bool IsSound(const Value& input) {
  return input.name == "source_features" && input.type.dtype == DType::kFloat32 &&
         input.type.shape.ranked() && input.type.shape.rank() == 3 && input.type.shape[2].known();
}

bool IsCache(const Value& input) {
  const Shape& shape = input.type.shape;
  return input.name.starts_with(kPast) && input.type.is_tensor() && !input.type.quantized() &&
         shape.ranked() && shape.rank() == 4 && shape[1].known() && shape[3].known();
}

Tensor Ints(std::vector<int64_t> sizes, const std::vector<int64_t>& values) {
  return Tensor::FromValues<int64_t>(Shape(sizes), values);
}

}  // namespace

const PhaseDef kPromptPhase = {
    .name = "prompt",
    .doc = "all tokens of a prompt in one run",
    .of =
        [](const PhaseOptions& o, int64_t most) {
          return Phase{o.sequences, std::max<int64_t>(o.context, 0), PromptLength(o, most)};
        },
};
const PhaseDef kDecodePhase = {
    .name = "decode",
    .doc = "one token of each sequence, behind its context",
    .of =
        [](const PhaseOptions& o, int64_t most) {
          const int64_t behind = std::min(PromptLength(o, most), most - 1);
          return Phase{o.sequences, o.context >= 0 ? o.context : behind, 1, PromptLength(o, most)};
        },
};

std::optional<CacheInputs> FindCacheInputs(const Graph& graph) {
  CacheInputs found;
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (Is(input, kTokens, 2)) {
      found.tokens = id;
    } else if (Is(input, kPlace, 1)) {
      found.place = id;
    } else if (Is(input, kWanted, 2)) {
      found.wanted = id;
    } else if (Is(input, kSource, 2) || IsSound(input)) {
      found.source = id;
    } else if (Is(input, kSourceLength, 1)) {
      found.source_length = id;
    } else if (IsCache(input)) {
      found.caches.push_back(id);
    } else {
      return std::nullopt;
    }
  }
  const bool all = found.tokens.valid() && found.place.valid() && found.wanted.valid() &&
                   found.source.valid() == found.source_length.valid();
  return all && !found.caches.empty() ? std::optional(found) : std::nullopt;
}

std::span<const PhaseDef* const> AllPhases() { return kPhases; }

const PhaseDef* FindPhase(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kPhases, [&](const PhaseDef* phase) { return phase->name == name; });
  return found == std::end(kPhases) ? nullptr : *found;
}

int64_t MostTokens(const Graph& graph) {
  int64_t most = kMost;
  if (IsLanguageModel(graph)) {
    const auto facts = ReadFacts(graph);
    if (facts && facts->context > 0) most = std::min(most, facts->context);
  }
  const auto inputs = FindCacheInputs(graph);
  for (const ValueId cache : inputs ? inputs->caches : std::vector<ValueId>()) {
    const Dim& room = graph.value(cache).type.shape[2];
    if (room.known()) most = std::min(most, room.value);
  }
  return most;
}

int64_t VocabularyOf(const Graph& graph) {
  if (!IsLanguageModel(graph)) return 1;
  const auto facts = ReadFacts(graph);
  return facts ? std::max<int64_t>(facts->vocabulary, 1) : 1;
}

int64_t PromptLength(const PhaseOptions& options, int64_t most) {
  constexpr int64_t kDefault = 512;
  return options.prompt_length > 0 ? options.prompt_length : std::min(kDefault, most);
}

Result<PhaseInputs> InputsOf(const Graph& graph, const CacheInputs& inputs, const Phase& phase,
                             int64_t room) {
  const auto& [sequences, context, tokens, source] = phase;
  if (sequences < 1 || tokens < 1 || context < 0 || std::max({sequences, context, tokens}) > kMost)
    return Fail(ErrorCode::kUsage,
                "{} sequences with {} tokens behind {}: expected at least 1, 1 and 0, at most {}",
                sequences, tokens, context, kMost);
  const int64_t needed = context + tokens, most = MostTokens(graph);
  if (needed > most)
    return Fail(ErrorCode::kUsage, "{} tokens behind {}: the model holds at most {}", tokens,
                context, most);
  const auto all = CheckedMul(sequences, tokens);
  if (!all || *all > kMost)
    return Fail(ErrorCode::kUsage, "{} sequences of {} tokens: expected at most {} together",
                sequences, tokens, kMost);
  const int64_t vocabulary = VocabularyOf(graph);
  // Tokens from all over the table.
  const auto some = [&](int64_t wanted) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < wanted; ++i) ids.push_back(i * 7919 % vocabulary);
    return ids;
  };
  const auto count = static_cast<size_t>(sequences);
  PhaseInputs out;
  const auto put = [&](ValueId input, std::vector<int64_t> sizes,
                       const std::vector<int64_t>& values) {
    const std::string& name = graph.value(input).name;
    out.contents[name] = Ints(sizes, values);
    out.shapes[name] = std::move(sizes);
  };
  const bool reading = inputs.reads() && tokens > 1;
  const int64_t written = reading ? 1 : tokens, read = reading ? tokens : 0;
  put(inputs.tokens, {sequences, written}, some(sequences * written));
  put(inputs.place, {sequences}, std::vector<int64_t>(count, context));
  put(inputs.wanted, {sequences, 1}, std::vector<int64_t>(count, written - 1));
  if (inputs.reads()) {
    const int64_t held = source > 0 ? source : std::max<int64_t>(context, 1);
    if (const Value& given = graph.value(inputs.source); IsSound(given)) {
      out.shapes[given.name] = {sequences, 2 * read, given.type.shape[2].value};
    } else {
      put(inputs.source, {sequences, read}, some(sequences * read));
    }
    put(inputs.source_length, {sequences},
        std::vector<int64_t>(count, std::min(reading ? tokens : held, most)));
  }
  for (const ValueId id : inputs.caches) {
    const Value& cache = graph.value(id);
    const Dim& fixed = cache.type.shape[2];
    out.shapes[cache.name] = {sequences, cache.type.shape[1].value,
                              fixed.known() ? fixed.value : std::max({room, needed, source}),
                              cache.type.shape[3].value};
  }
  return out;
}

}  // namespace evoq
