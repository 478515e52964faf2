#include "tokenizer/gguf.h"

#include <cmath>

#include "tokenizer/gguf_words.h"
#include "tokenizer/kinds.h"

namespace evoq {
namespace {

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
  // A piece that the user defined is found in the text as it is written, and joins by its score:
  // one of spaces is spelled with U+2581, which a text does not have.
  EVOQ_ASSIGN(TokenizerParts parts, SentencePiecePairs(vocabulary, scores, true, true));
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
  // Old files do not say it.
  const GgufWords* words = FindGgufWords(gguf.pre.empty() ? "default" : gguf.pre);
  if (words == nullptr)
    return Unsupported(
        "tokenizer.ggml.pre is {}: name another tokenizer (--tokenizer), or expected one of {}",
        gguf.pre, GgufWordsNames());
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
      SegmentByPairs(vocabulary, {.merges = std::move(ordered), .whole_words = words->whole_words});
  std::vector<Splitter> steps;
  for (const char* regex : words->patterns) {
    if (regex == nullptr) break;
    EVOQ_ASSIGN(const Pattern pattern, Pattern::Make(regex));
    steps.push_back(SplitAt(pattern, SplitBehavior::kIsolated));
  }
  EVOQ_ASSIGN(const Splitter bytes, ByteLevel(false, false));
  steps.push_back(bytes);
  parts.split = InSequence(std::move(steps));
  parts.decode.steps = {DecodeByteLevel()};
  if (words->begin) parts.before = {gguf.bos_token_id};
  return parts;
}

bool NeverBegins(const GgufTokenizer& gguf) {
  const GgufWords* words = gguf.model == "gpt2" ? FindGgufWords(gguf.pre) : nullptr;
  return words != nullptr && words->never_begin;
}

struct ModelRow {
  const char* name;
  Result<TokenizerParts> (*parts)(const GgufTokenizer&, std::shared_ptr<const Vocabulary>);
  bool begin;  // as in GgufWords
};
constexpr ModelRow kModels[] = {{"llama", LlamaParts, true}, {"gpt2", Gpt2Parts, false}};

}  // namespace

Result<Tokenizer> TokenizerFromGguf(const GgufTokenizer& gguf) {
  const ModelRow* model = nullptr;
  for (const ModelRow& row : kModels) {
    if (gguf.model == row.name) model = &row;
  }
  if (model == nullptr)
    return Unsupported(
        "tokenizer.ggml.model is {}: name another tokenizer (--tokenizer), or expected llama or "
        "gpt2",
        gguf.model);
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
  const int64_t begin = NeverBegins(gguf) ? -1 : gguf.bos_token_id;
  parts.before.clear();
  if (begins && begin >= 0) parts.before = {begin};
  if (gguf.add_eos_token.value_or(false) && gguf.eos_token_id >= 0)
    parts.after = {gguf.eos_token_id};
  parts.begin = begin;
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
