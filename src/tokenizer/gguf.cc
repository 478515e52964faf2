#include "tokenizer/gguf.h"

#include <cmath>

#include "tokenizer/kinds.h"

namespace evoq {
namespace {

// What llama.cpp calls the ways to split a text before byte pairs are merged.
struct PreRow {
  const char* name;
  const char* pattern;
  bool digits = false;       // each digit is apart
  bool whole_words = false;  // a word that is a piece is that piece
  bool begin = false;        // a text begins with the begin piece unless the file says otherwise
};

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr PreRow kPres[] = {
    {.name = "gpt-2", .pattern = kGpt2Pattern},
    {.name = "llama-bpe", .pattern = kLlama3, .whole_words = true, .begin = true},
    {.name = "llama3", .pattern = kLlama3, .whole_words = true, .begin = true},
    {.name = "llama-v3", .pattern = kLlama3, .whole_words = true, .begin = true},
    {.name = "qwen2", .pattern = kQwen2Pattern},
    {.name = "deepseek-r1-qwen", .pattern = kQwen2Pattern},
    {.name = "stablelm2", .pattern = kQwen2Pattern},
    {.name = "smollm", .pattern = kGpt2Pattern, .digits = true},
    {.name = "starcoder", .pattern = kGpt2Pattern, .digits = true},
    {.name = "refact", .pattern = kGpt2Pattern, .digits = true},
    {.name = "command-r", .pattern = kGpt2Pattern, .digits = true},
    {.name = "gpt-4o", .pattern = kGpt4o},
    {.name = "llama4", .pattern = kGpt4o},
};

Result<Vocabulary> VocabularyOf(const GgufTokenizer& gguf) {
  if (gguf.tokens.empty()) return InvalidInput("tokens: there are none");
  if (!gguf.token_type.empty() && gguf.token_type.size() != gguf.tokens.size())
    return InvalidInput("token_type has {} entries, tokens {}", gguf.token_type.size(),
                        gguf.tokens.size());
  Vocabulary vocabulary;
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    const int32_t type = gguf.token_type.empty() ? 1 : gguf.token_type[i];
    if (type < 1 || type > 6)
      return InvalidInput("token_type: piece {} has {}, expected 1 to 6", i, type);
    EVOQ_TRY(
        WithContext(vocabulary.Add(gguf.tokens[i], static_cast<PieceKind>(type - 1)), "tokens"));
  }
  return vocabulary;
}

// Special pieces are found in the text as it is; so is what the user defined.
void AddPieces(TokenizerParts& parts) {
  const Vocabulary& vocabulary = *parts.vocabulary;
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    const PieceKind kind = vocabulary.kind(id);
    const bool control = kind == PieceKind::kControl || kind == PieceKind::kUnknown;
    if (!control && kind != PieceKind::kUserDefined) continue;
    parts.added.push_back({.content = vocabulary.piece(id), .id = id, .special = control});
    if (kind == PieceKind::kControl) parts.SetSpecial(id);
  }
}

Result<TokenizerParts> LlamaParts(const GgufTokenizer& gguf,
                                  std::shared_ptr<const Vocabulary> vocabulary) {
  if (gguf.scores.size() != gguf.tokens.size())
    return InvalidInput("scores has {} entries, tokens {}", gguf.scores.size(), gguf.tokens.size());
  for (size_t i = 0; i < gguf.scores.size(); ++i) {
    if (std::isnan(gguf.scores[i])) return InvalidInput("scores: piece {} has none", i);
  }
  const std::vector<double> scores(gguf.scores.begin(), gguf.scores.end());
  EVOQ_ASSIGN(TokenizerParts parts, SentencePiecePairs(vocabulary, scores, true));
  const bool prefix = gguf.add_space_prefix.value_or(true);
  parts.normalize = [prefix](std::string& text) -> Status {
    if (prefix && !text.empty()) text.insert(0, 1, ' ');
    ReplaceAll(text, " ", kMetaspace);
    return {};
  };
  parts.decode = SentencePieceDecode(prefix);
  return parts;
}

Result<TokenizerParts> Gpt2Parts(const GgufTokenizer& gguf,
                                 std::shared_ptr<const Vocabulary> vocabulary) {
  const PreRow* pre = nullptr;
  for (const PreRow& row : kPres) {
    if (gguf.pre == row.name) pre = &row;
  }
  if (pre == nullptr) return Unsupported("tokenizer.ggml.pre is {}", gguf.pre);
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string& merge : gguf.merges) {
    const size_t space = merge.find(' ', 1);  // a piece has no space, but may be one of old files
    if (space == std::string::npos)
      return InvalidInput("merge {}: expected two pieces with a space between", merges.size());
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  TokenizerParts parts;
  parts.vocabulary = vocabulary;
  EVOQ_ASSIGN(Merges ordered, MergesInOrder(*vocabulary, merges));
  parts.segment =
      SegmentByPairs(vocabulary, {.merges = std::move(ordered), .whole_words = pre->whole_words});
  std::vector<Splitter> steps;
  if (pre->digits) {
    EVOQ_ASSIGN(const Pattern digit, Pattern::Make(R"(\p{N})"));
    steps.push_back(SplitAt(digit, SplitBehavior::kIsolated));
  }
  EVOQ_ASSIGN(const Pattern pattern, Pattern::Make(pre->pattern));
  steps.push_back(SplitAt(pattern, SplitBehavior::kIsolated));
  EVOQ_ASSIGN(const Splitter bytes, ByteLevel(false, false));
  steps.push_back(bytes);
  parts.split = InSequence(std::move(steps));
  parts.decode.steps = {DecodeByteLevel()};
  if (pre->begin) parts.before = {gguf.bos_token_id};
  return parts;
}

struct ModelRow {
  const char* name;
  Result<TokenizerParts> (*parts)(const GgufTokenizer&, std::shared_ptr<const Vocabulary>);
  bool begin;  // as in PreRow
};
constexpr ModelRow kModels[] = {{"llama", LlamaParts, true}, {"gpt2", Gpt2Parts, false}};

}  // namespace

Result<Tokenizer> TokenizerFromGguf(const GgufTokenizer& gguf) {
  const ModelRow* model = nullptr;
  for (const ModelRow& row : kModels) {
    if (gguf.model == row.name) model = &row;
  }
  if (model == nullptr) return Unsupported("tokenizer.ggml.model is {}", gguf.model);
  EVOQ_ASSIGN(Vocabulary pieces, VocabularyOf(gguf));
  const auto vocabulary = std::make_shared<const Vocabulary>(std::move(pieces));
  for (const auto& [name, id] : {std::pair("bos_token_id", gguf.bos_token_id),
                                 {"eos_token_id", gguf.eos_token_id},
                                 {"eot_token_id", gguf.eot_token_id},
                                 {"unknown_token_id", gguf.unknown_token_id},
                                 {"padding_token_id", gguf.padding_token_id}}) {
    if (id < -1 || id >= vocabulary->size())
      return InvalidInput("{} is {}, expected 0 to {}", name, id, vocabulary->size() - 1);
  }
  EVOQ_ASSIGN(TokenizerParts parts, model->parts(gguf, vocabulary));
  AddPieces(parts);
  const bool begins = gguf.add_bos_token.value_or(model->begin || !parts.before.empty());
  parts.before.clear();
  if (begins && gguf.bos_token_id >= 0) parts.before = {gguf.bos_token_id};
  if (gguf.add_eos_token.value_or(false) && gguf.eos_token_id >= 0)
    parts.after = {gguf.eos_token_id};
  parts.begin = gguf.bos_token_id;
  if (gguf.unknown_token_id >= 0) parts.unknown = gguf.unknown_token_id;
  parts.padding = gguf.padding_token_id;
  for (const int64_t id : {gguf.eos_token_id, gguf.eot_token_id}) {
    if (id >= 0 && std::find(parts.ends.begin(), parts.ends.end(), id) == parts.ends.end())
      parts.ends.push_back(id);
  }
  AddEndsByName(parts);
  parts.chat_template = gguf.chat_template;
  parts.tool_template = gguf.tool_template;
  return Tokenizer::Make(std::move(parts));
}

}  // namespace evoq
